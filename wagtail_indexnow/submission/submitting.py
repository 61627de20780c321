"""Ready URLs of one channel → one POST: prove the key, re-check, keep the pace, send, record.

Waits a moment for its slot, and never sends a second time: what has to wait longer stays a row,
and the relay comes back.
"""

import logging
import random
import time
from dataclasses import dataclass
from datetime import datetime, timedelta

from .. import clock, hosts
from ..conf import conf
from ..constants import KeyFile, Reason, SubmissionState, UrlState
from ..ledger import channels, tracked_urls
from ..ledger.transactions import database, reading_primary
from ..models import Channel, TrackedUrl
from ..pages import facts
from . import claims, client, keys
from .claims import Batch, Claim
from .responses import Answer, PauseHistory, Verdict, judge, needs_key_check, pause_for

logger = logging.getLogger(__name__)

IDLE = "idle"
NOT_YET = "not_yet"
UNSENT = "unsent"
SLOT_WAIT = timedelta(seconds=3)  # at most: a worker has other things to do
#: Pauses of our own making, which end when their cause does.
OWN_PAUSES = (Reason.KEY_FILE, Reason.OTHER_INSTALLATION, Reason.FOREIGN_HOST)


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

    :returns: in one word what came of it: `idle`, `not_yet`, `unsent`, a state or a reason.
    """
    with reading_primary():
        channel = channels.get(endpoint, host) if host != channels.ENDPOINT else None
        if channel is None:  # a message cannot make a row
            logger.warning("submit endpoint=%r host=%r outcome=unknown", endpoint[:64], host[:255])
            return IDLE
        outcome = _submit(channel)
        # After a fault the channel stays handed over: its lease spaces the attempts.
        channels.drop(channel.pk)
    logger.debug("submit endpoint=%s host=%s outcome=%s", endpoint, host, outcome)
    return outcome


def _submit(channel: Channel) -> str:
    if not conf.enabled:
        return Reason.DISABLED
    endpoint, host = channel.endpoint, channel.host
    endpoint_url = conf.endpoints.get(endpoint)
    if endpoint_url is None:
        return _end_gone(endpoint, host)
    if not _settle_left(channel) or _is_paused(endpoint, host):
        return NOT_YET
    scheme = _ready_scheme(channel)
    if scheme is None:
        return _idle(channel)
    if not hosts.is_served(host):
        return _pause(endpoint, host, Reason.FOREIGN_HOST)
    key = _proved_key(endpoint, host, scheme)
    if not isinstance(key, keys.Proof):
        return key
    return _send(
        _Address(
            endpoint=endpoint, endpoint_url=endpoint_url, host=host, scheme=scheme, key=key.key
        )
    )


def _end_gone(endpoint: str, host: str) -> str:
    rows = TrackedUrl.objects.filter(endpoint=endpoint, host=host)
    tracked_urls.end(rows, state=UrlState.SKIPPED, reason=Reason.ENDPOINT_GONE)
    return Reason.ENDPOINT_GONE


def _settle_left(channel: Channel) -> bool:
    """Settle what another worker left behind; `False` if somebody works in the channel now."""
    if channel.lease_until is None:
        return True
    left = claims.take_over(channel.pk)
    return left is not None and claims.settle(left[0], channel.pk, left[1])


def _is_paused(endpoint: str, host: str) -> bool:
    """Return whether the channel has to wait, or its endpoint longer than for its next slots."""
    now = clock.now()
    row, own = channels.get(endpoint, host), channels.get(endpoint, channels.ENDPOINT)
    slots = 2 * channels.slot()
    return bool((row and row.not_before > now) or (own and own.not_before > now + slots))


def _ready_scheme(channel: Channel) -> str | None:
    """Return the scheme of the URL that is due first, for the key file; `None` if none is due."""
    rows = claims.read(channel, now=clock.now(), limit=1).rows
    return rows[0].url.partition(":")[0] if rows else None


def _idle(channel: Channel) -> str:
    # Its row may still say that something is ready: the relay would hand it over for ever.
    channels.refresh(channel.pk)
    return IDLE


def _proved_key(endpoint: str, host: str, scheme: str) -> keys.Proof | str:
    """Return the key to send, or why nothing may be sent yet; the channel is then paused."""
    if conf.dry_run or not conf.verify_key_file:
        return keys.Proof(key=keys.key_for(host), result=KeyFile.OK)
    proof = keys.prove(host, scheme)
    if proof.retry_at is not None:
        channels.postpone(endpoint, host, until=proof.retry_at)
        return NOT_YET
    if not proof.is_ok:
        return _pause(endpoint, host, _pause_reason(proof.result))
    channels.clear_host(endpoint, host, OWN_PAUSES)
    return proof


def _pause_reason(result: str) -> Reason:
    is_foreign = result == KeyFile.OTHER_INSTALLATION
    return Reason.OTHER_INSTALLATION if is_foreign else Reason.KEY_FILE


def _history(endpoint: str, host: str, started_at: datetime | None = None) -> PauseHistory:
    reason, strikes = channels.history(endpoint, host, started_at=started_at)
    return PauseHistory(reason=reason, strikes=strikes)


def _pause(endpoint: str, host: str, reason: Reason) -> str:
    strikes = _history(endpoint, host).strikes_for(reason)
    until = clock.now() + pause_for(reason, strikes)
    channels.pause_host(endpoint, host, reason=reason, until=until)
    return reason


def _send(address: _Address) -> str:
    channel = channels.get(address.endpoint, address.host)
    if channel is None:
        return IDLE
    # In this order: whatever happens to the channel after it was read refuses the claim.
    batch = _without_hidden(claims.read(channel, now=clock.now()))
    if not batch.rows:
        return _idle(channel)
    claimed = _claim(batch, address.key)
    if claimed is None:
        return NOT_YET
    return _dry_run(claimed) if conf.dry_run else _post(address, claimed)


def _without_hidden(batch: Batch) -> Batch:
    """Leave out URLs whose pages were hidden or taken offline while they waited.

    A URL passes if no page has it, or one that is live and unrestricted.
    """
    rows = [row for row in batch.rows if not row.is_gone]
    holders = tracked_urls.holders(row.url_hash for row in rows)
    public = facts.still_public(set().union(*holders.values()))
    hidden = {hashed for hashed, pages in holders.items() if public.isdisjoint(pages)}
    return claims.refuse(batch, [row for row in rows if row.url_hash in hidden])


def _claim(batch: Batch, key: str) -> Claim | None:
    """Claim what was read, and wait for the endpoint's slot if it comes in a moment."""
    waited = timedelta(0)
    while isinstance(claimed := claims.claim(batch, key=key), datetime):
        wait = max(claimed - clock.now(), timedelta(0))
        if waited + wait > SLOT_WAIT:
            return None
        time.sleep(wait.total_seconds())
        waited += wait
    return claimed


def _dry_run(claimed: Claim) -> str:
    verdict = Verdict(state=SubmissionState.SKIPPED, reason=Reason.DRY_RUN)
    return _record(claimed, Answer(status=None), verdict)


def _post(address: _Address, claimed: Claim) -> str:
    if database().in_atomic_block:
        raise RuntimeError("The network is never inside a transaction.")
    if not claims.is_fresh(claimed, clock.now()):
        # This process stood still: the POST could outlast the lease, and meet the next one.
        claims.unsend(claimed)
        logger.warning("submission=%s state=%s", claimed.submission.pk, UNSENT)
        return UNSENT
    answer = client.post_urls(
        address.endpoint_url,
        host=address.host,
        key=address.key,
        key_location=keys.key_location(address.scheme, address.host, address.key),
        urls=claimed.urls,
        timeout_s=conf.timeout_s,
    )
    return _record(claimed, answer, _judge(address, claimed, answer))


def _judge(address: _Address, claimed: Claim, answer: Answer) -> Verdict:
    started_at = claimed.submission.started_at
    return judge(
        answer,
        now=clock.now(),
        key=address.key,
        key_check_passed=_own_check(address) if needs_key_check(answer) else None,
        endpoint=_history(address.endpoint, channels.ENDPOINT, started_at),
        channel=_history(address.endpoint, address.host, started_at),
        url_count=len(claimed.rows),
        was_split=claimed.is_half,
        jitter=random.random(),  # noqa: S311 - spreads load, guards nothing
    )


def _own_check(address: _Address) -> bool | None:
    if not conf.verify_key_file:
        return None
    proof = keys.prove(address.host, address.scheme, fresh=True)
    return proof.is_ok and proof.key == address.key


def _record(claimed: Claim, answer: Answer, verdict: Verdict) -> str:
    submission = claimed.submission
    is_in_time = claims.record_response(claimed, answer, verdict)
    if is_in_time:
        claims.settle(submission.pk, claimed.channel.pk, claimed.token)
    logger.info(
        "submission=%s endpoint=%s host=%s urls=%s status=%s state=%s reason=%s",
        submission.pk,
        submission.endpoint,
        submission.host,
        len(claimed.rows),
        answer.status,
        verdict.state if is_in_time else "late",
        verdict.reason,
    )
    return str(verdict.reason or verdict.state) if is_in_time else NOT_YET
