"""Why a page's URLs were submitted, wait or were skipped: for `indexnow_explain` and the editor.

Asks the same guards of the same facts as the workers do; changes nothing and sends nothing.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
from .formatting import engine_name, format_time, sentences
from .wait_reasons import Wait, Waits

SHOWN_EVENTS = 20  # open ones, and as many that have ended


@dataclass(frozen=True, kw_only=True)
class Guard:
    """One reason not to submit a page, and whether it applies."""

    reason: Reason
    passed: bool
    detail: str = ""  # for operators: the facts that were read


@dataclass(frozen=True, kw_only=True)
class ExplainedUrl:
    """What is known of one URL at one search engine, and what it waits for."""

    row: TrackedUrl
    wait: Wait


@dataclass(frozen=True, kw_only=True)
class ExplainedEvent:
    """One event of the page. `decision` says what a worker would decide now; empty if it ended."""

    row: Intent
    decision: str = ""


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """All there is to say about one page. `refusal` is `None` if it may be submitted."""

    page_id: int
    title: str
    refusal: Guard | None
    guards: Sequence[Guard]
    urls: Sequence[str]
    tracked: Sequence[ExplainedUrl]
    open_events: Sequence[ExplainedEvent]
    past_events: Sequence[ExplainedEvent]


def explain(page_id: int) -> Explanation:
    """Explain a page, also one that is gone: its guards now, its URLs and its events."""
    now = clock.now()
    rows = Intent.objects.with_overdue(now, conf.go_live_grace).filter(page_id=page_id)
    rows = rows.order_by("-created_at", "-pk")
    planned = list(rows.planned()[:SHOWN_EVENTS])
    ended = list(rows.exclude(state=IntentState.PLANNED)[:SHOWN_EVENTS])
    check = _check(page_id)
    guards, urls = _guards(page_id, check)
    waits = Waits(now)
    return Explanation(
        page_id=page_id,
        title=_title(check.page(page_id), [*planned, *ended]),
        refusal=next((guard for guard in guards if not guard.passed), None),
        guards=guards,
        urls=urls,
        tracked=[ExplainedUrl(row=row, wait=waits.of(row)) for row in _urls_of(page_id)],
        open_events=[ExplainedEvent(row=row, decision=_decision(row, check)) for row in planned],
        past_events=[ExplainedEvent(row=row) for row in ended],
    )


def status_sentence(page: Any) -> str:
    """Tell an editor in one or a few sentences whether a page was submitted.

    "Submitted" and "accepted", never "indexed": what search engines do with it is up to them.
    """
    return " ".join(status_sentences(page))


def status_sentences(page: Any) -> list[str]:
    """Return what each search engine has of a page, and what will happen next or why nothing."""
    if not conf.enabled:
        return [sentences(Reason.DISABLED.label)]
    submitted = list(_engine_sentences(page.pk))
    intent = Intent.objects.planned().filter(page_id=page.pk).order_by("run_at", "pk").first()
    future = _future_sentence(intent, _refusal(page.pk))
    if future:
        return [*submitted, future]
    return submitted or [_("The page has not been submitted yet.")]


def _check(page_id: int) -> Check:
    with routing() as router:
        check = Check(router, now=clock.now())
        check.read({page_id: None})
    return check


def _guards(page_id: int, check: Check) -> tuple[list[Guard], Sequence[str]]:
    """Return every guard with what it found, and the URLs that may be submitted now."""
    page = check.page(page_id)
    if page is None:
        return [Guard(reason=Reason.PAGE_DELETED, passed=False)], ()
    enabled = f"ENABLED: {conf.enabled}"
    guards = [Guard(reason=Reason.DISABLED, passed=conf.enabled, detail=enabled)]
    if page_id not in check.faults:
        facts, policy = check.facts(page_id), Policy(aliases=conf.aliases)
        assert facts is not None  # noqa: S101 - the page is there
        guards += [
            Guard(
                reason=reason,
                passed=not forbids(facts, policy),
                detail=_DETAILS[reason](page) if reason in _DETAILS else "",
            )
            for reason, forbids in PAGE_GUARDS
        ]
    refusal, detail, urls = _urls(page_id, check)
    asked = Guard(reason=refusal or Reason.NO_URL, passed=refusal is None, detail=detail)
    # A page may exclude itself by its guard, or by an empty list of URLs: one line for both.
    guards = [
        replace(guard, passed=False) if guard.reason == refusal else guard for guard in guards
    ]
    if all(guard.reason != asked.reason for guard in guards):
        guards.append(asked)
    return guards, urls if all(guard.passed for guard in guards) else ()


def _last_published(page: Any) -> str:
    at = page.last_published_at
    return f"last_published_at: {format_time(at)}" if at else ""


def _restrictions(page: Any) -> str:
    restricted = page.get_view_restrictions().exclude(restriction_type=PageViewRestriction.NONE)
    ids = restricted.order_by("page__path").values_list("page_id", flat=True)
    return f"restrictions on: {', '.join(map(str, ids)) or '–'}"


#: Guard → the facts that it read. A guard that is not named here shows its label alone.
_DETAILS: Mapping[Reason, Callable[[Any], str]] = {
    Reason.NOT_LIVE: _last_published,
    Reason.PRIVATE: _restrictions,
    Reason.ALIAS: lambda page: f"alias_of: {page.alias_of_id}, ALIASES: {conf.aliases}",
    Reason.EMBARGOED: lambda page: f"alias_of: {page.alias_of_id}",
    Reason.EXCLUDED: lambda page: f"indexnow_excluded: {getattr(page, 'indexnow_excluded', None)}",
}


def _urls(page_id: int, check: Check) -> tuple[Reason | None, str, Sequence[str]]:
    """Return (refusal, detail, URLs) of a page."""
    if fault := check.faults.get(page_id):  # of the page's own code
        return Reason.PAGE_ERROR, describe(fault), ()
    if reason := check.reason(page_id):
        return Reason(reason), "", ()
    urls = check.urls(page_id)
    return None, f"URLs: {len(urls)}", urls


def _decision(intent: Intent, check: Check) -> str:
    page_id = intent.page_pk
    if page_id in check.faults:
        return f"wait {Reason.PAGE_ERROR}"
    decision = decide(as_planned(intent), check.facts(page_id), now=check.now)
    if decision.verb == "go" and check.reason(page_id):
        return f"skip {check.reason(page_id)}"
    return f"{decision.verb} {decision.reason}".strip()


def _urls_of(page_id: int) -> Iterator[TrackedUrl]:
    rows = TrackedUrl.objects.filter(page_id=page_id)
    yield from rows.order_by("endpoint", F("sent_at").desc(nulls_last=True), "url")


def _title(page: Any, intents: Sequence[Intent]) -> str:
    if page is not None:
        return str(page.title)
    return next((intent.page_title for intent in intents if intent.page_title), "")


def _refusal(page_id: int) -> str:
    """Return the reason why a page may not be submitted now; empty if it may."""
    return _urls(page_id, _check(page_id))[0] or ""


def _future_sentence(intent: Intent | None, refusal: str) -> str:
    """Return what will happen to a page, or why nothing will; empty if nothing needs saying."""
    is_go_live = intent is not None and intent.kind == Kind.GO_LIVE
    if intent is not None and is_go_live and refusal in ("", Reason.NOT_LIVE):
        return _schedule_sentence(intent)
    if refusal:
        return sentences(Reason.label_of(refusal))
    if intent is None:
        return ""
    return sentences(Reason.label_of(intent.reason)) or _("The page is queued for submission.")


def _schedule_sentence(intent: Intent) -> str:
    if intent.reason or intent.expected_at is None:
        return sentences(Reason.label_of(intent.reason))
    return _("The page will be submitted once it is live, after %(time)s.") % {
        "time": format_time(intent.expected_at)
    }


def _engine_sentences(page_id: int) -> Iterator[str]:
    rows = [row for row in _urls_of(page_id) if row.endpoint in conf.endpoints]
    waits = Waits(clock.now())
    for endpoint in conf.endpoints:
        mine = [row for row in rows if row.endpoint == endpoint]
        accepted = [row for row in mine if row.state == UrlState.ACCEPTED]
        if accepted:
            yield _accepted_sentence(engine_name(endpoint), accepted)
        for state in (UrlState.PENDING, UrlState.REJECTED, UrlState.FAILED, UrlState.SKIPPED):
            others = [row for row in mine if row.state == state]
            if others:
                text = _sentence_of(state, engine_name(endpoint), len(others))
                yield sentences(text, waits.of(others[0]).why)


def _accepted_sentence(engine: str, rows: Sequence[TrackedUrl]) -> str:
    # What is public now says more than what has gone.
    public = [row for row in rows if row.change != Change.REMOVED]
    last = (public or rows)[0]
    count = len(public or rows)
    if public:
        text = ngettext(
            "%(engine)s accepted %(count)s URL on %(time)s (response %(status)s).",
            "%(engine)s accepted %(count)s URLs on %(time)s (response %(status)s).",
            count,
        )
    else:
        text = ngettext(
            "%(engine)s accepted the removal of %(count)s URL on %(time)s (response %(status)s).",
            "%(engine)s accepted the removal of %(count)s URLs on %(time)s (response %(status)s).",
            count,
        )
    return text % {
        "engine": engine,
        "time": format_time(last.sent_at) if last.sent_at else "–",
        "count": count,
        "status": last.last_status or "–",
    }


def _sentence_of(state: UrlState, engine: str, count: int) -> str:
    text = {
        UrlState.PENDING: ngettext(
            "%(count)s URL is pending for %(engine)s.",
            "%(count)s URLs are pending for %(engine)s.",
            count,
        ),
        UrlState.REJECTED: ngettext(
            "%(count)s URL was rejected by %(engine)s.",
            "%(count)s URLs were rejected by %(engine)s.",
            count,
        ),
        UrlState.FAILED: ngettext(
            "%(count)s URL could not be submitted to %(engine)s.",
            "%(count)s URLs could not be submitted to %(engine)s.",
            count,
        ),
        UrlState.SKIPPED: ngettext(
            "%(count)s URL was not submitted to %(engine)s.",
            "%(count)s URLs were not submitted to %(engine)s.",
            count,
        ),
    }[state]
    return text % {"engine": engine, "count": count}
