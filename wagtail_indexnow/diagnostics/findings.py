"""What a check of a site's health found, one thing at a time."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _


class Severity(TextChoices):
    """Whether a finding needs a person. Decided where it is found, and nowhere else."""

    OK = "ok", _("OK")
    INFO = "info", _("Info")  # nothing is proved, or it passes without anybody doing anything
    ACTION = "action", _("Action needed")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was checked."""

    name: str  # what was checked, such as `key_file`, or the id of a system check
    severity: Severity
    message: str
    remedy: str = ""
    subject: str = ""  # host, search engine or both, where there are several


def needing_action(found: Iterable[Finding]) -> list[Finding]:
    """Return the findings that need a person."""
    return [finding for finding in found if finding.severity == Severity.ACTION]
