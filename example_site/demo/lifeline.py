"""Ends the demo's processes if the demo itself is killed and can no longer do it.

Reads lines from standard input: `12` for a process group that was started, `-12` for one that
has ended. End of input means that the demo is gone; whatever has not ended is ended then.
"""

import os
import signal
import sys
import time
from collections.abc import Iterable

GRACE_S = 5.0


def main(lines: Iterable[str]) -> None:
    """Follow the lines until they end, then end the groups that are left."""
    groups: set[int] = set()
    for line in lines:
        number = int(line)
        groups = groups | {number} if number > 0 else groups - {-number}
    if groups:
        end(groups)


def end(groups: Iterable[int]) -> None:
    """Ask the groups to end, newest first; after a while, make them."""
    left = [group for group in sorted(groups, reverse=True) if signal_group(group, signal.SIGTERM)]
    deadline = time.monotonic() + GRACE_S
    while left and time.monotonic() < deadline:
        time.sleep(0.1)
        left = [group for group in left if signal_group(group, 0)]
    for group in left:
        signal_group(group, signal.SIGKILL)


def signal_group(group: int, number: int) -> bool:
    """Send a signal to a process group; say whether anybody was there to get it."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # macOS says "not permitted" of the dead
        return False
    return True


if __name__ == "__main__":
    main(sys.stdin)
