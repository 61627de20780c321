"""One request from verdict to record to reply: the flow of M3 with rate, key and script."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from example_site.engine.anomalies import anomalies_of, strings_in
from example_site.engine.bodies import body_for
from example_site.engine.hosts import HostMap, parse_authority
from example_site.engine.keys import KeyBook
from example_site.engine.pace import Pace
from example_site.engine.profiles import Profile
from example_site.engine.records import (
    ACCEPTED_STATUSES,
    Answer,
    Incoming,
    Reply,
    RequestRecord,
    Submission,
    Verdict,
)
from example_site.engine.rules import (
    ABSOLUTE_URL,
    INDEXNOW_PATH,
    RefusedRequestError,
    fields_of,
    judge,
)
from example_site.engine.state import Records, Script


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The engine's own decision: verdict, the URLs it concerns, those that came too soon."""

    verdict: Verdict
    urls: tuple[str, ...]
    too_soon: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Desk:
    """Takes requests in. ``on_accepted`` is told of each record whose URLs were received."""

    profile: Profile
    host_map: HostMap
    records: Records
    script: Script
    keys: KeyBook
    pace: Pace
    now: Callable[[], float]
    on_accepted: Callable[[RequestRecord], None]

    def take_in(self, incoming: Incoming) -> Reply:
        """Decide on a request, record it, and return what to send back."""
        now = self.now()
        fields = fields_of(incoming)
        host = claimed_host(incoming, fields)
        scripted = self.script.take(
            host=host,
            path=incoming.path,
            is_indexnow=INDEXNOW_PATH.fullmatch(incoming.path) is not None,
        )
        if scripted is None:
            outcome = self._decide(incoming, fields, now)
            reply = self._reply(outcome.verdict)
        else:
            outcome = self._scripted(scripted, incoming, fields, now)
            reply = scripted_reply(scripted)
        self._record(incoming, fields, host, outcome, reply, now)
        return reply

    def _decide(self, incoming: Incoming, fields: Mapping[str, Any] | None, now: float) -> Outcome:
        try:
            submission = judge(incoming, fields, self.profile, self.host_map.hosts())
        except RefusedRequestError as refused:
            urls = tuple(dict.fromkeys(strings_in(incoming, fields)))
            return Outcome(verdict=refused.verdict, urls=urls)
        too_soon = self.pace.too_soon(submission.urls, now)
        verdict = self._pace_then_key(incoming, submission, too_soon, now)
        return Outcome(verdict=verdict, urls=submission.urls, too_soon=too_soon)

    def _pace_then_key(
        self, incoming: Incoming, submission: Submission, too_soon: tuple[str, ...], now: float
    ) -> Verdict:
        # Rate before key: a 429 may come before the key was ever fetched and says nothing of it.
        return (
            self.pace.refuse(incoming.client_address, now)
            or self.pace.refuse_too_soon(too_soon, now)
            or self.keys.decide(submission, now)
        )

    def _scripted(
        self,
        answer: Answer,
        incoming: Incoming,
        fields: Mapping[str, Any] | None,
        now: float,
    ) -> Outcome:
        if answer.apply:
            return self._decide(incoming, fields, now)
        urls = tuple(dict.fromkeys(strings_in(incoming, fields)))
        too_soon = self.pace.too_soon(urls, now)
        status = wire_status(answer)
        return Outcome(
            verdict=Verdict(status=status, rule="M17", reason="A scripted answer."),
            urls=urls,
            too_soon=too_soon,
        )

    def _reply(self, verdict: Verdict) -> Reply:
        content_type, body = body_for(self.profile.body_style, verdict)
        headers = dict(verdict.headers)
        if content_type:
            headers["Content-Type"] = content_type
        if not verdict.is_accepted:
            headers["X-Mock-Rule"] = verdict.rule
        return Reply(status=verdict.status, headers=headers, body=body)

    def _record(
        self,
        incoming: Incoming,
        fields: Mapping[str, Any] | None,
        host: str,
        outcome: Outcome,
        reply: Reply,
        now: float,
    ) -> None:
        verdict = outcome.verdict
        record = self.records.add(
            lambda number: RequestRecord(
                number=number,
                at=now,
                monotonic=time.monotonic(),
                method=incoming.method,
                path=incoming.path + (f"?{incoming.query}" if incoming.query else ""),
                headers=dict(incoming.headers),
                raw=incoming.raw,
                parsed=None if fields is None else dict(fields),
                status=reply.status,
                rule=verdict.rule,
                reason=verdict.reason,
                anomalies=anomalies_of(incoming, fields),
                too_soon=outcome.too_soon,
                client_address=incoming.client_address,
                host=host,
                urls=outcome.urls,
                is_accepted=verdict.is_accepted,
            )
        )
        if record.is_accepted:
            self.pace.take(record.urls, now)
            self.on_accepted(record)


def claimed_host(incoming: Incoming, fields: Mapping[str, Any] | None) -> str:
    """Return the host a request speaks for, in normal form if it has one; empty if unknown."""
    claimed = (fields or {}).get("host")
    if incoming.method == "GET":
        match = ABSOLUTE_URL.match(str((fields or {}).get("url", "")))
        claimed = match[2] if match else ""
    if not isinstance(claimed, str):
        return ""
    try:
        return parse_authority(claimed).host
    except ValueError:
        return claimed


def wire_status(answer: Answer) -> int:
    """Return the status a scripted answer sends; 0 if it sends none."""
    if answer.drop:
        return 0
    if answer.redirect_to is not None and answer.status in ACCEPTED_STATUSES:
        return 302
    return answer.status


def scripted_reply(answer: Answer) -> Reply:
    """Return the reply that plays a scripted answer."""
    headers = dict(answer.headers)
    if answer.redirect_to is not None:
        headers["Location"] = answer.redirect_to
    status = wire_status(answer)
    if status not in ACCEPTED_STATUSES:
        headers["X-Mock-Rule"] = "M17"
    return Reply(status=status, headers=headers, body=answer.body, script=answer)
