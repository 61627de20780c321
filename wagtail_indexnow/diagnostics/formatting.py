"""Times and outcomes as people read them."""

from datetime import datetime

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from ..constants import Reason, UrlState


def outcome_label(outcome: str) -> str:
    """Return a submission's outcome, which is a state or a reason, as a sentence."""
    if outcome == UrlState.ACCEPTED:
        return _("The engine was told.")
    return str(Reason(outcome).label) if outcome in Reason.values else outcome


def moment(at: datetime) -> str:
    """Return a time in the reader's language and time zone, fit to end a sentence."""
    local = timezone.localtime(at) if timezone.is_aware(at) else at
    return f"{date_format(local, 'DATE_FORMAT')} {local:%H:%M}"
