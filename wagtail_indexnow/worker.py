"""What an actor does with its message: take it apart, do the work, survive what is away.

The relay's `--inline` mode does the same without any broker.
"""

import logging
from collections.abc import Callable
from typing import Any

from django.db import DatabaseError, InterfaceError

from . import payloads
from .constants import PAYLOAD_REFUSED, WORKER_HEARTBEAT
from .exceptions import PayloadError
from .ledger import heartbeats
from .pages.announcing import announce_intents
from .submission.submitting import submit_channel

logger = logging.getLogger(__name__)


def handle_announcement(payload: Any) -> None:
    """Announce the intents of a message."""

    def work() -> None:
        announce_intents(payloads.parse_announcement(payload))

    _work(work, payload)


def handle_submission(payload: Any) -> None:
    """Submit what waits for the channel of a message."""

    def work() -> None:
        ref = payloads.parse_submission(payload)
        submit_channel(ref.endpoint, ref.host)

    _work(work, payload)


def _work(work: Callable[[], None], payload: Any) -> None:
    try:
        heartbeats.beat(WORKER_HEARTBEAT)
        work()
    except PayloadError as error:
        # A newer worker will understand it: the row stays open, counts its hand-overs, and the
        # relay hands it over again.
        heartbeats.beat(PAYLOAD_REFUSED)
        logger.error("payload=%s state=left_alone error=%s", payload, error)
    except (DatabaseError, InterfaceError) as error:
        # Costs no attempt and asks for none: the hand-over's lease brings the work back.
        logger.warning("payload=%s state=left_for_later error=%r", payload, error)
