"""The site's own actor, on the same queue as ours: it fails at first, and is tried again."""

import os
import time
from pathlib import Path

import dramatiq


@dramatiq.actor(actor_name="faults.flaky", max_retries=3, min_backoff=1_000, max_backoff=1_000)
def flaky(name: str) -> None:
    """Fail once, then write the time into a file of that name."""
    path = Path(os.environ["PROCESS_DIR"]) / name
    if not path.exists():
        path.write_text("")
        raise RuntimeError("the first try fails")
    path.write_text(str(time.time()))


@dramatiq.actor(actor_name="faults.note")
def note(name: str) -> None:
    """Write the time into a file of that name, as a job that was to run at a time."""
    (Path(os.environ["PROCESS_DIR"]) / name).write_text(str(time.time()))
