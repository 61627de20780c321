"""Why a pending URL has not been submitted yet, and until when it waits."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from django.db.models import Q
from django.utils.translation import gettext as _

from ..conf import conf
from ..constants import Reason, UrlState
from ..ledger.channels import ENDPOINT
from ..models import Channel, TrackedUrl
from .formatting import format_time, sentences

#: Between a response and the note of it in the URL's row.
_SLACK = timedelta(seconds=1)


@dataclass(frozen=True, kw_only=True)
class Wait:
    """Why a URL was not submitted, and what it waits for, if it does."""

    why: str  # in one or two sentences, empty if there is nothing to say
    until: datetime | None = None
    is_paused: bool = False
    is_over: bool = False  # it goes with the next submission

    def __str__(self) -> str:
        if self.until is not None:
            return sentences(
                self.why, _("Next attempt: %(time)s") % {"time": format_time(self.until)}
            )
        return sentences(self.why, _("Goes with the next submission.") if self.is_over else "")


class Waits:
    """Finds the waits of any number of URLs, with one query for all that are pending."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    @cached_property
    def _channels(self) -> dict[tuple[str, str], Channel]:
        """Return the channels that are paused or have to keep their pace."""
        rows = Channel.objects.filter(~Q(pause_reason="") | Q(not_before__gt=self._now))
        return {(row.endpoint, row.host): row for row in rows}

    def of(self, url: TrackedUrl) -> Wait:
        """Return what there is to say of one URL, whatever its state."""
        if url.state != UrlState.PENDING or url.not_before is None:
            return Wait(why=sentences(Reason.label_of(url.reason)))
        keys = ((url.endpoint, ENDPOINT), (url.endpoint, url.host))
        channels = [self._channels[key] for key in keys if key in self._channels]
        times = (url.not_before, *(channel.not_before for channel in channels))
        until = max((at for at in times if at is not None and at > self._now), default=None)
        pauses = [channel.pause_reason for channel in channels if channel.pause_reason]
        labels = dict.fromkeys(Reason.label_of(code) for code in (url.reason, *pauses))
        return Wait(
            why=sentences(*labels) or _pace(url, until),
            until=until,
            is_paused=bool(pauses) and until is not None,
            is_over=until is None,
        )


def _pace(url: TrackedUrl, until: datetime | None) -> str:
    """Return which part of the usual pace a URL waits for."""
    if until is None:
        return ""
    was_sent = url.sent_at is not None and until <= url.sent_at + conf.resubmit_after + _SLACK
    if was_sent and until == url.not_before:
        return _("The URL was submitted a short while ago.")
    return _("Waiting for this site's next submission slot.")
