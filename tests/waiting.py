"""Waiting for another process or thread, with a deadline."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], *, seconds: float, every: float = 0.1) -> None:
    """Poll until a condition holds.

    :raises AssertionError: it did not within the given seconds.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {condition.__qualname__}")
        time.sleep(every)
