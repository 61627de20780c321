"""Ready URLs of one channel → one POST: prove the key, keep the pace, claim, send, record.

Never sleeps and never sends a second time: what has to wait stays a row, and the relay comes
back.
"""

import logging
import random
from dataclasses import dataclass

from .. import clock, hosts
from ..conf import conf
from ..constants import KeyFile, Kind, Reason, UrlState
from ..ledger import channels, intents, tracked_urls
from ..ledger.transactions import database
from ..models import TrackedUrl
from ..pages import facts
from . import claims, client, keys
from .claims import Claim
from .responses import Answer, HoldScope, Standing, Verdict, hold_for, judge, needs_key_check

logger = logging.getLogger(__name__)

IDLE = "idle"
NOT_YET = "not_yet"
#: Holds of our own making, which end when their cause does.
_OWN_HOLDS = (Reason.KEY_FILE, Reason.OTHER_INSTALLATION, Reason.FOREIGN_HOST)


@dataclass(frozen=True, kw_only=True)
class _Address:
    """Where a POST goes and what it says of itself."""

    endpoint: str
    endpoint_url: str
    host: str
    scheme: str
    key: str


def submit_channel(endpoint: str, host: str) -> str:
    """Send what is ready for a host to an endpoint, one POST at most.

    :returns: in one word what came of it: `idle`, `not_yet`, a state or a reason.
    """
    outcome = _submit(endpoint, host)
    # After a fault the channel stays handed over: its lease spaces the attempts.
    channels.handed_back(endpoint, host)
    logger.debug("submit endpoint=%s host=%s outcome=%s", endpoint, host, outcome)
    return outcome


def _submit(endpoint: str, host: str) -> str:
    if not conf.enabled:
        return Reason.DISABLED
    endpoint_url = conf.endpoints.get(endpoint)
    if endpoint_url is None:
        return _end_gone(endpoint, host)
    channels.ensure(endpoint, [host])
    now = clock.now()
    if not channels.is_open(endpoint, host, now):
        return NOT_YET
    if not hosts.is_served(host):
        return _hold(endpoint, host, Reason.FOREIGN_HOST)
    claims.settle_answered(endpoint, host, now=now)
    tracked_urls.give_up(now, endpoint=endpoint, host=host)
    scheme = _ready_scheme(endpoint, host)
    if scheme is None:
        return IDLE
    key = _proved_key(endpoint, host, scheme)
    if not isinstance(key, keys.Proof):
        return key
    return _send(
        _Address(
            endpoint=endpoint, endpoint_url=endpoint_url, host=host, scheme=scheme, key=key.key
        )
    )


def _end_gone(endpoint: str, host: str) -> str:
    rows = TrackedUrl.objects.of_channel(endpoint, host)
    tracked_urls.end(rows, state=UrlState.SKIPPED, reason=Reason.ENDPOINT_GONE, now=clock.now())
    return Reason.ENDPOINT_GONE


def _ready_scheme(endpoint: str, host: str) -> str | None:
    """Return the scheme of the oldest ready URL, for the key file; `None` if nothing is ready."""
    ready = TrackedUrl.objects.of_channel(endpoint, host).ready(clock.now())
    url = ready.order_by("not_before", "pk").values_list("url", flat=True).first()
    return url.partition(":")[0] if url else None


def _proved_key(endpoint: str, host: str, scheme: str) -> keys.Proof | str:
    """Return the key to send, or why nothing may be sent yet; the channel is then held."""
    if conf.dry_run or not conf.verify_key_file:
        return keys.Proof(key=keys.key_for(host), result=KeyFile.OK)
    proof = keys.prove(host, scheme)
    if proof.retry_at is not None:
        channels.postpone(endpoint, host, until=proof.retry_at)
        return NOT_YET
    if not proof.is_ok:
        return _hold(endpoint, host, _pause_reason(proof.result))
    channels.clear(endpoint, host, before=clock.now(), reasons=_OWN_HOLDS)
    return proof


def _pause_reason(result: str) -> Reason:
    is_foreign = result == KeyFile.OTHER_INSTALLATION
    return Reason.OTHER_INSTALLATION if is_foreign else Reason.KEY_FILE


def _standing(endpoint: str, host: str) -> Standing:
    reason, strikes = channels.standing(endpoint, host)
    return Standing(reason=reason, strikes=strikes)


def _hold(endpoint: str, host: str, reason: Reason) -> str:
    strikes = _standing(endpoint, host).strikes_for(reason)
    until = clock.now() + hold_for(reason, strikes)
    channels.hold(endpoint, host, reason=reason, until=until)
    return reason


def _send(address: _Address) -> str:
    slot = channels.take_slot(address.endpoint, address.host)
    if slot is None:
        return NOT_YET
    claimed = claims.claim(address.endpoint, address.host, now=clock.now())
    claimed = claimed and _still_public(claimed)
    if claimed is None:
        return IDLE
    if not channels.confirm_slot(slot):
        claims.unclaim(claimed)
        return NOT_YET
    return _dry_run(claimed) if conf.dry_run else _post(address, claimed)


def _still_public(claimed: Claim) -> Claim | None:
    """Leave out pages that were hidden or taken offline while their URLs waited."""
    pages = claims.public_pages(claimed)
    refused = pages - facts.still_public(pages) if pages else set()
    for page_id in sorted(refused):  # what else is there to tell of it?
        intents.insert(Kind.VISIBILITY, page_id=page_id, run_at=clock.now())
    return claims.withdraw(claimed, refused, now=clock.now())


def _dry_run(claimed: Claim) -> str:
    verdict = Verdict(url_state=UrlState.SKIPPED, reason=Reason.DRY_RUN)
    _record(claimed, Answer(status=None), verdict)
    return verdict.outcome


def _post(address: _Address, claimed: Claim) -> str:
    if database().in_atomic_block:
        raise RuntimeError("The network is never inside a transaction.")
    answer = client.post_urls(
        address.endpoint_url,
        host=address.host,
        key=address.key,
        key_location=keys.key_location(address.scheme, address.host, address.key),
        urls=claimed.urls,
        timeout_s=conf.timeout_s,
    )
    verdict = _judge(address, claimed, answer)
    # In this order: a crash in between sends the refused POST again, but not before the hold ends.
    _hold_back(address, claimed, verdict)
    _record(claimed, answer, verdict)
    if verdict.proven:
        _prove(address, claimed)
    return verdict.outcome


def _judge(address: _Address, claimed: Claim, answer: Answer) -> Verdict:
    return judge(
        answer,
        now=clock.now(),
        key=address.key,
        key_check_passed=_own_check(address) if needs_key_check(answer) else None,
        endpoint=_standing(address.endpoint, channels.ENDPOINT),
        channel=_standing(address.endpoint, address.host),
        url_count=len(claimed.rows),
        was_split=claimed.is_split,
        jitter=random.random(),  # noqa: S311 - spreads load, guards nothing
    )


def _own_check(address: _Address) -> bool | None:
    if not conf.verify_key_file:
        return None
    proof = keys.prove(address.host, address.scheme, fresh=True)
    return proof.is_ok and proof.key == address.key


def _record(claimed: Claim, answer: Answer, verdict: Verdict) -> None:
    claims.record(claimed, answer, verdict, now=clock.now())
    submission = claimed.submission
    logger.info(
        "submission=%s endpoint=%s host=%s urls=%s status=%s outcome=%s",
        submission.pk,
        submission.endpoint,
        submission.host,
        len(claimed.rows),
        answer.status,
        verdict.outcome,
    )


def _hold_back(address: _Address, claimed: Claim, verdict: Verdict) -> None:
    if verdict.hold is not None and verdict.hold_until is not None:
        channels.hold(
            address.endpoint,
            address.host if verdict.hold is HoldScope.CHANNEL else channels.ENDPOINT,
            reason=verdict.reason,
            until=verdict.hold_until,
            started_at=claimed.submission.started_at,
        )


def _prove(address: _Address, claimed: Claim) -> None:
    """An engine has taken what it was sent: no hold from before that stands."""
    channels.verified(address.endpoint, address.host)
    for host in (channels.ENDPOINT, address.host):
        channels.clear(address.endpoint, host, before=claimed.submission.started_at)
