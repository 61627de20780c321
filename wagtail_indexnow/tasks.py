"""The Dramatiq actors. `rundramatiq` finds them by this module's name; their names are fixed.

They declare nothing but name and queue: an option whose middleware a site lacks would break the
import. They need no retries either: what is not done stays a row, and the relay comes back.
"""

from typing import Any

import dramatiq

from . import worker
from .conf import conf
from .constants import ANNOUNCE_ACTOR, SUBMIT_ACTOR


@dramatiq.actor(actor_name=ANNOUNCE_ACTOR, queue_name=conf.queue)
def announce(payload: dict[str, Any]) -> None:
    """Announce the intents that the message names."""
    worker.handle_announcement(payload)


@dramatiq.actor(actor_name=SUBMIT_ACTOR, queue_name=conf.queue)
def submit(payload: dict[str, Any]) -> None:
    """Submit what waits for the channel that the message names."""
    worker.handle_submission(payload)
