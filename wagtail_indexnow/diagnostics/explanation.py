"""Why a page's URLs were sent, wait or were not sent: for `indexnow_explain` and the editor.

Asks the same guards of the same facts as the workers do; changes nothing and sends nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from wagtail.models import PageViewRestriction

from .. import clock
from ..conf import conf
from ..constants import Change, IntentState, Kind, Reason, UrlState
from ..exceptions import describe
from ..models import Intent, TrackedUrl
from ..pages.announcing import as_planned
from ..pages.comparison import Check
from ..pages.guards import PAGE_GUARDS, Policy, decide
from ..pages.public_urls import routing
from .formatting import moment
from .wait_reasons import Waits

PAST_INTENTS = 20


@dataclass(frozen=True, kw_only=True)
class Guard:
    """One question that is asked before a page may be announced."""

    name: str  # the reason that a refusal would carry
    passed: bool
    message: str


@dataclass(frozen=True, kw_only=True)
class Tracked:
    """What one search engine knows of one URL."""

    endpoint: str
    url: str
    change: str
    state: str
    reason: str
    message: str  # why it waits or was not sent, empty if there is nothing to say
    waits_until: datetime | None  # pace and holds of its site and engine included
    sent_at: datetime | None
    last_status: int | None


@dataclass(frozen=True, kw_only=True)
class PlannedLook:
    """One intent of the page, open or ended. `verdict` says what would come of it now."""

    key: str
    kind: str
    state: str
    reason: str
    message: str
    verdict: str
    run_at: datetime | None
    expected_at: datetime | None
    created_at: datetime
    finished_at: datetime | None
    scheduled_by: str
    error: str


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """All there is to say about one page. `reason` is empty if engines may hear of it."""

    page_id: int
    title: str
    reason: str
    message: str
    guards: Sequence[Guard]
    urls: Sequence[str]
    tracked: Sequence[Tracked]
    open_intents: Sequence[PlannedLook]
    past_intents: Sequence[PlannedLook]


def explain(page_id: int, *, shown_pages: Any = None) -> Explanation:
    """Say of a page, gone ones too, what the guards find now, what engines know and what waits.

    :param shown_pages: a queryset of the pages that the reader may be told of; all by default.
    """
    with routing() as router:
        check = Check(router, now=clock.now())
        check.read({page_id: None})
    guards, urls = _guards(page_id, check, shown_pages)
    intents = list(Intent.objects.filter(page_id=page_id).order_by("-created_at", "-pk"))
    looks = [_planned_look(intent, check) for intent in intents]
    refused = next((guard for guard in guards if not guard.passed), None)
    page = check.page(page_id)
    return Explanation(
        page_id=page_id,
        title=_title(page, intents),
        reason=refused.name if refused else "",
        message=refused.message if refused else "",
        guards=guards,
        urls=urls,
        tracked=_tracked(page_id),
        open_intents=[item for item in looks if item.state == IntentState.PLANNED],
        past_intents=[item for item in looks if item.state != IntentState.PLANNED][:PAST_INTENTS],
    )


def status_sentence(page: Any) -> str:
    """Say to an editor in one or a few sentences whether engines were told of a page.

    "Told", never "indexed": what engines do with it is theirs. Costs a handful of queries.
    """
    return " ".join(status_sentences(page))


def status_sentences(page: Any) -> list[str]:
    """Return what to say of a page: what each engine was told, and what will happen or why not."""
    if not conf.enabled:
        return [str(Reason.DISABLED.label)]
    told = list(_engine_sentences(page.pk))
    intent = Intent.objects.planned().filter(page_id=page.pk).order_by("run_at", "pk").first()
    future = _future_sentence(intent, _refusal(page.pk))
    if future:
        return [*told, future]
    return told or [_("Search engines have not been told of this page yet.")]


def _guards(page_id: int, check: Check, shown_pages: Any) -> tuple[list[Guard], Sequence[str]]:
    """Return every guard with what it found, and the URLs that engines may hear of now."""
    page = check.page(page_id)
    if page is None:
        return [_guard(Reason.PAGE_DELETED, False, "")], ()
    guards = [_guard(Reason.DISABLED, conf.enabled, f"ENABLED: {conf.enabled}")]
    if page_id not in check.faults:
        facts, policy = check.facts(page_id), Policy(aliases=conf.aliases)
        assert facts is not None  # noqa: S101 - the page is there
        guards += [
            _guard(reason, not forbids(facts, policy), _found(reason, page, shown_pages))
            for reason, forbids in PAGE_GUARDS
        ]
    reason, message, urls = _urls(page_id, check)
    guards.append(Guard(name=reason or Reason.NO_URL.value, passed=not reason, message=message))
    return guards, urls if all(guard.passed for guard in guards) else ()


def _guard(reason: Reason, passed: bool, found: str) -> Guard:
    message = found if passed else f"{reason.label} {found}".strip()
    return Guard(name=reason.value, passed=passed, message=message)


def _found(reason: Reason, page: Any, shown_pages: Any) -> str:
    """Say what a guard looked at."""
    match reason:
        case Reason.NOT_LIVE:
            at = page.last_published_at
            return _("Last published: %(time)s.") % {"time": moment(at) if at else "–"}
        case Reason.PRIVATE:
            return _restrictions(page, shown_pages)
        case Reason.ALIAS:
            return f"alias_of: {page.alias_of_id}, ALIASES: {conf.aliases}"
        case Reason.EMBARGOED:
            return f"alias_of: {page.alias_of_id}"
        case _:
            return f"indexnow_excluded: {getattr(page, 'indexnow_excluded', None)}"


def _restrictions(page: Any, shown_pages: Any) -> str:
    restricted = page.get_view_restrictions().exclude(restriction_type=PageViewRestriction.NONE)
    if shown_pages is not None:
        restricted = restricted.filter(page__in=shown_pages.order_by().values("pk"))
    titles = restricted.order_by("page__path").values_list("page__title", flat=True)
    return _("Restrictions on: %(pages)s.") % {"pages": ", ".join(titles) or "–"}


def _urls(page_id: int, check: Check) -> tuple[str, str, Sequence[str]]:
    """Return (reason, what was found, URLs) of a page."""
    if fault := check.faults.get(page_id):  # of the page's own code
        label = Reason.PAGE_ERROR.label
        return Reason.PAGE_ERROR.value, f"{label} {describe(fault)}", ()
    if reason := check.reason(page_id):
        return reason, str(Reason(reason).label), ()
    urls = check.urls(page_id)
    message = ngettext("%(count)s URL.", "%(count)s URLs.", len(urls)) % {"count": len(urls)}
    return "", message, urls


def _planned_look(intent: Intent, check: Check) -> PlannedLook:
    return PlannedLook(
        key=intent.key,
        kind=intent.kind,
        state=intent.state,
        reason=intent.reason,
        message=str(intent.get_reason_display()) if intent.reason else "",
        verdict=_verdict(intent, check) if intent.state == IntentState.PLANNED else "",
        run_at=intent.run_at,
        expected_at=intent.expected_at,
        created_at=intent.created_at,
        finished_at=intent.finished_at,
        scheduled_by=intent.scheduled_by,
        error=intent.error,
    )


def _verdict(intent: Intent, check: Check) -> str:
    """Return in a word or two what a worker would decide now."""
    page_id = intent.page_id
    if page_id is None or page_id in check.faults:
        return f"wait {Reason.PAGE_ERROR}"
    decision = decide(as_planned(intent), check.facts(page_id), now=check.now)
    if decision.verb == "go" and check.reason(page_id):
        return f"skip {check.reason(page_id)}"
    return f"{decision.verb} {decision.reason}".strip()


def _rows(page_id: int) -> Iterator[TrackedUrl]:
    rows = TrackedUrl.objects.filter(page_id=page_id)
    yield from rows.order_by("endpoint", F("sent_at").desc(nulls_last=True), "url")


def _tracked(page_id: int) -> list[Tracked]:
    waits = Waits(clock.now())
    found = []
    for row in _rows(page_id):
        wait = waits.of(row)
        found.append(
            Tracked(
                endpoint=row.endpoint,
                url=row.url,
                change=row.change,
                state=row.state,
                reason=row.reason,
                message=wait.why,
                waits_until=wait.until,
                sent_at=row.sent_at,
                last_status=row.last_status,
            )
        )
    return found


def _title(page: Any, intents: Sequence[Intent]) -> str:
    if page is not None:
        return str(page.title)
    return next((intent.page_title for intent in intents if intent.page_title), "")


def _refusal(page_id: int) -> str:
    """Return the reason why engines may not hear of a page now; empty if they may."""
    with routing() as router:
        check = Check(router, now=clock.now())
        check.read({page_id: None})
    return _urls(page_id, check)[0]


def _future_sentence(intent: Intent | None, refusal: str) -> str:
    """Say what will happen to a page, or why nothing will; empty if nothing needs saying."""
    is_go_live = intent is not None and intent.kind == Kind.GO_LIVE
    if intent is not None and is_go_live and refusal in ("", Reason.NOT_LIVE):
        return _schedule_sentence(intent)
    if refusal:
        return str(Reason(refusal).label)
    if intent is None:
        return ""
    if intent.reason:
        return str(intent.get_reason_display())
    return _("Search engines will be told in a moment.")


def _schedule_sentence(intent: Intent) -> str:
    if intent.reason or intent.expected_at is None:
        return str(intent.get_reason_display())
    return _("Search engines will be told after %(time)s, once the page is live.") % {
        "time": moment(intent.expected_at)
    }


def _engine_sentences(page_id: int) -> Iterator[str]:
    rows = [row for row in _rows(page_id) if row.endpoint in conf.endpoints]
    waits = Waits(clock.now())
    for endpoint in conf.endpoints:
        mine = [row for row in rows if row.endpoint == endpoint]
        told = [row for row in mine if row.state == UrlState.ACCEPTED]
        if told:
            yield _told_sentence(endpoint, told)
        for state in (UrlState.PENDING, UrlState.REJECTED, UrlState.FAILED, UrlState.SKIPPED):
            others = [row for row in mine if row.state == state]
            if others:
                yield f"{_untold_sentence(endpoint, others)} {waits.of(others[0]).why}".strip()


def _told_sentence(endpoint: str, rows: Sequence[TrackedUrl]) -> str:
    # What is public now says more than what has gone.
    public = [row for row in rows if row.change != Change.REMOVED]
    last = (public or rows)[0]
    count = len(public or rows)
    if public:
        text = ngettext(
            "Told to %(engine)s on %(time)s: %(count)s URL, answer %(status)s.",
            "Told to %(engine)s on %(time)s: %(count)s URLs, answer %(status)s.",
            count,
        )
    else:
        text = ngettext(
            "Told to %(engine)s on %(time)s that %(count)s URL is gone, answer %(status)s.",
            "Told to %(engine)s on %(time)s that %(count)s URLs are gone, answer %(status)s.",
            count,
        )
    return text % {
        "engine": endpoint,
        "time": moment(last.sent_at) if last.sent_at else "–",
        "count": count,
        "status": last.last_status or "–",
    }


def _untold_sentence(endpoint: str, rows: Sequence[TrackedUrl]) -> str:
    count = len(rows)
    text = {
        UrlState.PENDING: ngettext(
            "%(count)s URL waits to be told to %(engine)s.",
            "%(count)s URLs wait to be told to %(engine)s.",
            count,
        ),
        UrlState.SKIPPED: ngettext(
            "%(count)s URL was not sent to %(engine)s.",
            "%(count)s URLs were not sent to %(engine)s.",
            count,
        ),
    }.get(
        UrlState(rows[0].state),
        ngettext(
            "%(engine)s did not take %(count)s URL.",
            "%(engine)s did not take %(count)s URLs.",
            count,
        ),
    )
    return text % {"engine": endpoint, "count": count}
