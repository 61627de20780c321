"""Why a URL that waits is not sent yet, and until when, for people who ask."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from django.db.models import Q
from django.utils.translation import gettext as _

from ..conf import conf
from ..constants import Reason, UrlState
from ..ledger.channels import ENDPOINT
from ..models import Channel, TrackedUrl
from .formatting import moment

#: Between an answer and the note of it in the URL's row.
_SLACK = timedelta(seconds=1)


@dataclass(frozen=True, kw_only=True)
class Wait:
    """Why a URL was not sent, and what it waits for, if it does."""

    why: str  # in one or two sentences, empty if there is nothing to say
    until: datetime | None = None
    is_over: bool = False  # it goes with the next submission

    def __str__(self) -> str:
        if self.until is not None:
            when = _("Not before %(moment)s.") % {"moment": moment(self.until)}
        else:
            when = _("Goes with the next submission.") if self.is_over else ""
        return f"{self.why} {when}".strip()


class Waits:
    """Answers for any number of URLs, with one query for all that wait."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    @cached_property
    def _channels(self) -> dict[tuple[str, str], Channel]:
        """Return the channels that are held or have to pause."""
        rows = Channel.objects.filter(~Q(pause_reason="") | Q(not_before__gt=self._now))
        return {(row.endpoint, row.host): row for row in rows}

    def of(self, url: TrackedUrl) -> Wait:
        """Return what there is to say of one URL, whatever its state."""
        if url.state != UrlState.PENDING or url.not_before is None:
            return Wait(why=_sentences([url.reason]))
        keys = ((url.endpoint, ENDPOINT), (url.endpoint, url.host))
        channels = [self._channels[key] for key in keys if key in self._channels]
        times = (url.not_before, *(channel.not_before for channel in channels))
        until = max((at for at in times if at is not None and at > self._now), default=None)
        holds = (channel.pause_reason for channel in channels)
        why = _sentences([url.reason, *holds]) or _pause(url, until)
        return Wait(why=why, until=until, is_over=until is None)


def _sentences(reasons: Iterable[str]) -> str:
    known = (Reason(reason) for reason in reasons if reason in Reason.values)
    return " ".join(dict.fromkeys(str(reason.label) for reason in known))


def _pause(url: TrackedUrl, until: datetime | None) -> str:
    """Say which pause it is that nobody ordered."""
    if until is None:
        return ""
    was_told = url.sent_at is not None and until <= url.sent_at + conf.resubmit_after + _SLACK
    if was_told and until == url.not_before:
        return _("It was told a short while ago, and a URL is not sent again so soon.")
    return _("Submissions to its site keep a distance.")
