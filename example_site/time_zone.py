"""The time zone of this machine, so that the demo's editor types times as on the wall clock."""

from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


def local_time_zone(link: Path = Path("/etc/localtime")) -> str:
    """Return the name that the system's link points to (Linux, macOS); UTC if there is none."""
    _, found, name = str(link.resolve()).partition("zoneinfo/")
    try:
        ZoneInfo(name)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        return "UTC"
    return name if found else "UTC"
