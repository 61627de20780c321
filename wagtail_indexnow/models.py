"""The tables. NULLs instead of partial indexes, so that every database behaves alike.

Rows name pages by plain integers: pages come and go, and the page model may be swapped.
"""

from datetime import datetime, timedelta
from typing import Any, ClassVar, Self

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from .constants import LEASE_MAX, LEASE_MIN, Change, IntentState, Kind, Reason, UrlState


def lease_for(handed_count: int) -> timedelta:
    """Return how long a hand-over counts as under way: 60 s, doubling to an hour."""
    exponent = min(max(handed_count - 1, 0), 16)
    return min(LEASE_MIN * (1 << exponent), LEASE_MAX)


class IntentQuerySet(models.QuerySet["Intent"]):
    def planned(self) -> Self:
        return self.filter(state=IntentState.PLANNED)

    def open(self) -> Self:
        """Select what a worker will check: planned events, and cancelled ones until checked."""
        return self.filter(run_at__isnull=False)

    def due(self, now: datetime) -> Self:
        return self.filter(run_at__lte=now)

    def free_to_hand_over(self, now: datetime) -> Self:
        """Leave out rows whose last hand-over may still be under way.

        The lease counts from the later of `handed_at` and `run_at`.
        """
        free = Q(handed_at=None)
        count = 1
        while True:
            before = now - lease_for(count)
            is_last = lease_for(count) == LEASE_MAX
            counted = Q(handed_count__gte=count) if is_last else Q(handed_count=count)
            if count == 1:  # a subtree that came another way than by the relay renews its lease too
                counted = Q(handed_count__lte=1)
            free |= counted & Q(handed_at__lte=before, run_at__lte=before)
            if is_last:
                return self.filter(free)
            count += 1

    def overdue(self, now: datetime, grace: timedelta) -> Self:
        """Select go-lives that `publish_scheduled` should long have published."""
        return self.planned().filter(
            kind=Kind.GO_LIVE, reason=Reason.NOT_PUBLISHED_YET, expected_at__lte=now - grace
        )


class Intent(models.Model):
    """One reason to check a page (or subtree) at a time. In the admin: an event.

    The transactional outbox: written with the editor's change, ended with the URLs it changed.
    `page_id` NULL: the whole site. `run_at` NULL: nothing is left to do. `cursor` is the last
    page id that was done, of a subtree or the site. `detail` holds the figures of an audit.
    """

    key = models.CharField(max_length=191, unique=True)
    kind = models.CharField(_("kind"), max_length=16, choices=Kind.choices)
    page_id = models.BigIntegerField(null=True, blank=True, db_index=True)
    page_title = models.CharField(_("page"), max_length=255, blank=True)
    locale = models.CharField(_("locale"), max_length=100, blank=True)
    translation_key = models.UUIDField(null=True, blank=True)
    revision_id = models.BigIntegerField(null=True, blank=True)
    expected_at = models.DateTimeField(_("due"), null=True, blank=True)
    run_at = models.DateTimeField(_("next look"), null=True, blank=True, db_index=True)
    state = models.CharField(
        _("state"), max_length=16, choices=IntentState.choices, default=IntentState.PLANNED
    )
    reason = models.CharField(_("reason"), max_length=32, choices=Reason.choices, blank=True)
    error = models.TextField(_("error"), blank=True)
    attempts = models.PositiveIntegerField(default=0)
    waits = models.PositiveIntegerField(default=0)
    version = models.PositiveIntegerField(default=0)
    subtree = models.BooleanField(default=False)
    cursor = models.BigIntegerField(default=0)
    detail = models.JSONField(default=dict, blank=True)
    scheduled_by = models.CharField(_("planned by"), max_length=255, blank=True)
    correlation_id = models.CharField(max_length=64, blank=True)
    created_at = models.DateTimeField(_("planned at"))
    handed_at = models.DateTimeField(null=True, blank=True)
    handed_count = models.PositiveIntegerField(default=0)
    finished_at = models.DateTimeField(_("ended at"), null=True, blank=True)

    objects: ClassVar[IntentQuerySet] = IntentQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        verbose_name = _("IndexNow announcement")
        verbose_name_plural = _("IndexNow announcements")
        ordering = ["-created_at", "-pk"]
        indexes = [
            models.Index(fields=["finished_at"], name="indexnow_intent_finished"),
            models.Index(fields=["kind", "state", "expected_at"], name="indexnow_intent_schedule"),
            models.Index(fields=["state", "subtree"], name="indexnow_intent_subtree"),
        ]

    def __str__(self) -> str:
        return self.key

    @property
    def page_pk(self) -> int:
        """The page of an event that has one: any but those of the whole site."""
        assert self.page_id is not None, f"{self.key} is not an event of a page"  # noqa: S101
        return self.page_id

    def is_overdue(self, now: datetime, grace: timedelta) -> bool:
        """Say whether `publish_scheduled` should long have published this page."""
        return (
            self.state == IntentState.PLANNED
            and self.reason == Reason.NOT_PUBLISHED_YET
            and self.expected_at is not None
            and self.expected_at <= now - grace
        )


class CheckedPage(models.Model):
    """What the last check of a page saw: the head of its inventory.

    `version` decides between two checks of one page, `published_at` is its `last_published_at`
    then, and `reason` says why it has no public URL (empty if it has).
    """

    page_id = models.BigIntegerField(unique=True)
    version = models.PositiveIntegerField(default=0)
    published_at = models.DateTimeField(null=True, blank=True)
    reason = models.CharField(max_length=32, choices=Reason.choices, blank=True)
    checked_at = models.DateTimeField()

    class Meta:
        verbose_name = _("checked page")
        verbose_name_plural = _("checked pages")

    def __str__(self) -> str:
        return str(self.page_id)


class PublicUrl(models.Model):
    """One URL under which a page was public when it was last checked.

    `published_at` is the page's `last_published_at` under which the URL was last announced, or
    recorded by an audit.
    """

    page_id = models.BigIntegerField()
    url = models.CharField(_("URL"), max_length=2048)
    url_hash = models.CharField(max_length=64, db_index=True, editable=False)
    host = models.CharField(_("host"), max_length=255)
    published_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = _("public URL")
        verbose_name_plural = _("public URLs")
        constraints = [
            models.UniqueConstraint(fields=["page_id", "url_hash"], name="indexnow_public_url_once")
        ]
        indexes = [models.Index(fields=["host"], name="indexnow_public_url_host")]

    def __str__(self) -> str:
        return self.url


class Submission(models.Model):
    """One POST with its URLs and its answer. `status` NULL: in flight, or no answer came."""

    endpoint = models.CharField(_("search engine"), max_length=64)
    host = models.CharField(_("host"), max_length=255)
    started_at = models.DateTimeField(_("started"))
    finished_at = models.DateTimeField(_("finished"), null=True, blank=True)
    status = models.PositiveSmallIntegerField(_("answer"), null=True, blank=True)
    error_code = models.CharField(_("error code"), max_length=128, blank=True)
    excerpt = models.TextField(_("excerpt"), blank=True)
    urls = models.JSONField(_("URLs"), default=list)
    url_count = models.PositiveIntegerField(_("number of URLs"), default=0, editable=False)
    outcome = models.CharField(_("outcome"), max_length=32, blank=True)

    class Meta:
        verbose_name = _("IndexNow submission")
        verbose_name_plural = _("IndexNow submissions")
        ordering = ["-started_at", "-pk"]
        indexes = [
            models.Index(
                fields=["started_at", "outcome", "url_count"], name="indexnow_submission_plot"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.endpoint} {self.host} {self.started_at:%Y-%m-%d %H:%M:%S}"

    def save(self, **kwargs: Any) -> None:
        """Keep `url_count` true: lists and plots must not read 10,000 URLs to count them."""
        self.url_count = len(self.urls)
        if "urls" in (kwargs.get("update_fields") or ()):
            kwargs["update_fields"] = {*kwargs["update_fields"], "url_count"}
        super().save(**kwargs)


class TrackedUrlQuerySet(models.QuerySet["TrackedUrl"]):
    def public(self) -> Self:
        """Select what engines know, or are about to be told, as public."""
        return self.exclude(change=Change.REMOVED)

    def ready(self, now: datetime) -> Self:
        """Select what waits, is due and is not in another worker's hands."""
        return self.filter(not_before__lte=now).filter(
            Q(lease_until=None) | Q(lease_until__lte=now)
        )

    def of_channel(self, endpoint: str, host: str) -> Self:
        return self.filter(endpoint=endpoint, host=host)

    def moved_since_claim(self) -> Self:
        return self.exclude(claimed_version=F("version"))


class TrackedUrl(models.Model):
    """One URL at one endpoint: what waits for it, and what was last sent and answered."""

    endpoint = models.CharField(_("search engine"), max_length=64)
    host = models.CharField(_("host"), max_length=255)
    url = models.CharField(_("URL"), max_length=2048)
    url_hash = models.CharField(max_length=64, editable=False)
    page_id = models.BigIntegerField(null=True, blank=True, db_index=True)
    intent = models.ForeignKey(
        Intent, null=True, blank=True, on_delete=models.SET_NULL, related_name="tracked_urls"
    )
    change = models.CharField(_("change"), max_length=16, choices=Change.choices)
    changed_at = models.DateTimeField(_("changed"), null=True, blank=True)
    version = models.PositiveIntegerField(default=0)
    claimed_version = models.PositiveIntegerField(default=0)
    not_before = models.DateTimeField(_("waits until"), null=True, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    state = models.CharField(
        _("state"), max_length=16, choices=UrlState.choices, default=UrlState.PENDING
    )
    reason = models.CharField(_("reason"), max_length=32, choices=Reason.choices, blank=True)
    attempts = models.PositiveIntegerField(_("tries"), default=0)
    sent_at = models.DateTimeField(_("sent"), null=True, blank=True)
    last_status = models.PositiveSmallIntegerField(_("last answer"), null=True, blank=True)
    submission = models.ForeignKey(
        Submission, null=True, blank=True, on_delete=models.SET_NULL, related_name="tracked_urls"
    )

    objects: ClassVar[TrackedUrlQuerySet] = TrackedUrlQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        verbose_name = _("IndexNow URL")
        verbose_name_plural = _("IndexNow URLs")
        ordering = ["-changed_at", "-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["endpoint", "url_hash"], name="indexnow_url_once_per_endpoint"
            ),
        ]
        indexes = [
            models.Index(fields=["endpoint", "host", "not_before"], name="indexnow_url_ready"),
            models.Index(fields=["state", "changed_at"], name="indexnow_url_state"),
            models.Index(fields=["changed_at", "id"], name="indexnow_url_changed"),
            models.Index(fields=["change", "changed_at"], name="indexnow_url_change"),
        ]

    def __str__(self) -> str:
        return self.url


class Channel(models.Model):
    """One (endpoint, host): its pace, holds and verification. Host `""` is the endpoint itself."""

    endpoint = models.CharField(_("search engine"), max_length=64)
    host = models.CharField(_("host"), max_length=255, blank=True)
    not_before = models.DateTimeField(_("waits until"), null=True, blank=True)
    handed_at = models.DateTimeField(null=True, blank=True)
    strikes = models.PositiveIntegerField(default=0)
    pause_reason = models.CharField(_("pause"), max_length=32, choices=Reason.choices, blank=True)
    paused_at = models.DateTimeField(_("held since"), null=True, blank=True)
    verified_at = models.DateTimeField(_("key accepted"), null=True, blank=True)

    class Meta:
        verbose_name = _("IndexNow channel")
        verbose_name_plural = _("IndexNow channels")
        constraints = [
            models.UniqueConstraint(fields=["endpoint", "host"], name="indexnow_channel_once"),
        ]

    def __str__(self) -> str:
        return f"{self.endpoint} {self.host}".strip()


class HostKey(models.Model):
    """The IndexNow key of one host, and what the last look at its key file found."""

    host = models.CharField(_("host"), max_length=255, unique=True)
    key = models.CharField(max_length=128)
    previous_key = models.CharField(max_length=128, blank=True)
    previous_until = models.DateTimeField(null=True, blank=True)
    checked_key = models.CharField(max_length=128, blank=True)
    checked_at = models.DateTimeField(_("checked"), null=True, blank=True)
    checked_by = models.CharField(max_length=64, blank=True)
    check_result = models.CharField(_("key file"), max_length=32, blank=True)
    audited_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        verbose_name = _("IndexNow key")
        verbose_name_plural = _("IndexNow keys")
        permissions = [("manage_indexnow", _("Can manage IndexNow keys and holds"))]

    def __str__(self) -> str:
        return self.host


class Heartbeat(models.Model):
    """When a part of the machinery was last seen at work."""

    name = models.CharField(max_length=64, unique=True)
    seen_at = models.DateTimeField()

    class Meta:
        verbose_name = _("heartbeat")
        verbose_name_plural = _("heartbeats")

    def __str__(self) -> str:
        return self.name
