"""What a look at the health of a site found, one thing at a time."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was looked at. `ok` None: nothing is wrong, but nothing is proved either."""

    name: str  # what was looked at, such as `key_file`, or the id of a system check
    ok: bool | None
    message: str
    fix: str = ""
    subject: str = ""  # host, engine or both, where there are several


def trouble(found: list[Finding]) -> list[Finding]:
    """Return those that a person has to do something about."""
    return [finding for finding in found if finding.ok is False]
