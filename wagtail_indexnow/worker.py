"""What an actor does with its message: take it apart, do the work, survive what is away.

The relay's `--inline` mode does the same without any broker.
"""

import logging
import reprlib
import traceback
from collections.abc import Callable
from typing import Any

from django.db import DatabaseError, InterfaceError
from dramatiq.middleware import Interrupt

from . import payloads
from .constants import WORKER_HEARTBEAT
from .exceptions import PayloadError
from .ledger import heartbeats
from .ledger.transactions import reading_primary
from .pages.announcing import announce_intents
from .submission.submitting import submit_channel

logger = logging.getLogger(__name__)

MAX_LOGGED = 300  # characters of a message, and of an error
_brief = reprlib.Repr()
_brief.maxdict = _brief.maxlist = 4
_brief.maxstring = _brief.maxother = _brief.maxlong = 80


def handle_announcement(payload: Any) -> bool:
    """Announce the intents of a message; return whether that was done."""

    def work() -> None:
        announce_intents(payloads.parse_announcement(payload))

    return _work(work, payload)


def handle_submission(payload: Any) -> bool:
    """Submit what waits for the channel of a message; return whether that was done."""

    def work() -> None:
        ref = payloads.parse_submission(payload)
        submit_channel(ref.endpoint, ref.host)

    return _work(work, payload)


def _work(work: Callable[[], None], payload: Any) -> bool:
    """Run a message's work. Nothing is raised, and so nothing is retried by the broker.

    What is not done stays a row; the lease of its hand-over spaces the attempts.
    """
    try:
        heartbeats.beat(WORKER_HEARTBEAT)
        with reading_primary():
            work()
        return True
    except PayloadError as error:
        # Of a newer worker, perhaps, which will understand it.
        _log(logging.ERROR, "left_alone", payload, str(error))
    except (DatabaseError, InterfaceError) as error:
        _log(logging.WARNING, "left_for_later", payload, repr(error))
    except (Exception, Interrupt) as error:  # Interrupt: a time limit, or a worker that stops
        where = traceback.extract_tb(error.__traceback__)[-1]
        _log(logging.ERROR, "left_for_later", payload, f"{error!r} at {where.name}:{where.lineno}")
    return False


def _log(level: int, state: str, payload: Any, error: str) -> None:
    """Write one line of bounded length, whatever came."""
    shown = _brief.repr(payload)[:MAX_LOGGED]
    text = ascii(error[:MAX_LOGGED])[1:-1][:MAX_LOGGED]
    logger.log(level, "payload=%s state=%s error=%s", shown, state, text)
