"""The time zone of this machine, so that the demo's editor types times as on the wall clock."""

import os
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


def time_zone() -> str:
    """Return the zone of `EXAMPLE_TIME_ZONE`, or else this machine's."""
    return os.environ.get("EXAMPLE_TIME_ZONE") or local_time_zone()


def local_time_zone(link: Path = Path("/etc/localtime")) -> str:
    """Return the name that the system's link points to (Linux, macOS); UTC if there is none."""
    try:
        _, found, name = str(link.readlink()).partition("zoneinfo/")
        ZoneInfo(name)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        return "UTC"
    return name if found else "UTC"
