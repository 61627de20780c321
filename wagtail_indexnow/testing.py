"""For a site's own tests: record what engines would be told. No network, broker, key or waiting.

    from wagtail_indexnow.testing import record_submissions

    with record_submissions() as submissions:
        page.save_revision().publish()
    submissions.assert_submitted("https://www.example.com/en/news/")

With pytest, name this module in `pytest_plugins` (or import the fixture in a `conftest.py`) and
ask for `indexnow_submissions`. Works inside the transaction of a `TestCase` too: what happened is
rows there.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, overload
from unittest import mock

from django.conf import settings
from django.db import router, transaction
from django.db.models import Max, Q
from django.test import override_settings
from django.utils import timezone
from wagtail.models import Site

from . import clock, hosts
from .conf import SETTING
from .constants import LIST_SIZE, IntentState, Kind, Reason, UrlState
from .models import Intent, TrackedUrl
from .pages import audits
from .pages.announcing import announce_intents
from .payloads import IntentRef
from .submission import claims
from .submission.responses import Answer, Verdict

__all__ = ["Submission", "Submissions", "record_submissions"]

#: On loopback, so that a test site called `localhost` counts. Nothing is ever sent there.
ENDPOINT, ENDPOINT_URL = "testing", "http://127.0.0.1:9/indexnow"
MAX_ROUNDS = 10  # a copied page is looked at two or three times


@dataclass(frozen=True, kw_only=True)
class Submission:
    """One URL as engines would be told it. `change` is `added`, `updated` or `removed`."""

    url: str
    change: str
    page_id: int | None = None


class Submissions(Sequence[Submission]):
    """What would have been submitted so far, oldest first."""

    def __init__(self) -> None:
        self._recorded: list[Submission] = []
        self._looked_at: set[int] = set()
        self._is_open = True
        self._ahead: datetime | None = None

    @overload
    def __getitem__(self, index: int) -> Submission: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Submission]: ...

    def __getitem__(self, index: int | slice) -> Submission | Sequence[Submission]:
        return self._recorded[index]

    def __len__(self) -> int:
        return len(self._recorded)

    def __repr__(self) -> str:
        return f"<Submissions: {self._recorded!r}>"

    @property
    def urls(self) -> list[str]:
        """Every URL once, sorted."""
        return sorted({submission.url for submission in self._recorded})

    def assert_submitted(self, *urls: str) -> None:
        """Check that engines would be told exactly these URLs, in whatever order.

        :raises AssertionError: names what is missing, what is too much, and why pages were not
            told.
        """
        self.collect()
        expected = {hosts.normalise(url) or url for url in urls}
        told = set(self.urls)
        if told != expected:
            raise AssertionError(self._difference(expected - told, told - expected))

    def assert_nothing_submitted(self) -> None:
        """Check that engines would be told nothing.

        :raises AssertionError: names what they would be told.
        """
        self.assert_submitted()

    def collect(self) -> None:
        """Do now what a worker would do with all that happened until now.

        The assertions do this by themselves, and so does the end of the block.
        """
        if self._is_open:
            for _round in range(MAX_ROUNDS):
                if not self._announce():
                    break
            self._submit()

    def forget(self) -> None:
        """Start anew: what happened until now counts as told."""
        self.collect()
        self._recorded.clear()
        self._looked_at.clear()

    def close(self) -> None:
        """Record nothing more."""
        self._is_open = False

    def now(self) -> datetime:
        """Return the time that the work is done at: no pause is waited for."""
        now = timezone.now()
        return max(now, self._ahead) if self._ahead else now

    def _announce(self) -> bool:
        """Look at everything that is planned; schedules only if they are due."""
        is_due = ~Q(kind=Kind.GO_LIVE) | Q(run_at__lte=timezone.now())
        planned = Intent.objects.open().filter(is_due).exclude(reason=Reason.PAGE_ERROR)
        found = list(planned.order_by("run_at", "pk")[:LIST_SIZE])
        if not found:
            return False
        self._looked_at |= {intent.pk for intent in found}
        self._ahead = max(intent.run_at for intent in found if intent.run_at is not None)
        try:
            announce_intents(
                [IntentRef(key=intent.key, page_id=intent.page_id) for intent in found]
            )
        finally:
            self._ahead = None
        return True

    def _submit(self) -> None:
        """Take what is ready as a POST would, and let an engine say yes."""
        waiting = TrackedUrl.objects.filter(endpoint=ENDPOINT, not_before__isnull=False)
        due_at = waiting.aggregate(at=Max("not_before"))["at"]
        accepted = Verdict(url_state=UrlState.ACCEPTED, proven=True)
        for host in sorted(set(waiting.values_list("host", flat=True))):
            while claimed := claims.claim(ENDPOINT, host, now=due_at):
                self._recorded += [
                    Submission(url=row.url, change=row.change, page_id=row.page_id)
                    for row in claimed.rows
                ]
                claims.record(claimed, Answer(status=200), accepted, now=due_at)

    def _difference(self, missing: set[str], unexpected: set[str]) -> str:
        changes = {submission.url: submission.change for submission in self._recorded}
        parts = [
            ("missing", sorted(missing)),
            ("unexpected", [f"{url} ({changes[url]})" for url in sorted(unexpected)]),
            ("not told", list(self._untold()) if missing else []),
            ("perhaps", list(_hints()) if missing else []),
        ]
        lines = [f"  {title}: {line}" for title, texts in parts for line in texts]
        return "\n".join(["Search engines would not be told exactly the expected URLs.", *lines])

    def _untold(self) -> Iterator[str]:
        for intent in Intent.objects.filter(pk__in=self._looked_at).exclude(reason=""):
            is_waiting = intent.state == IntentState.PLANNED
            state = "waits" if is_waiting else intent.state
            said = [intent.reason, str(intent.get_reason_display()), intent.error]
            why = " – ".join(filter(None, said))
            yield f"page {intent.page_id} {intent.page_title!r} {state}: {why}"


@contextmanager
def record_submissions(**changed_settings: Any) -> Iterator[Submissions]:
    """Record what the changes inside the block would make engines be told.

    The app is switched on, whatever the test settings say, and every host of a Site counts as
    served here. Everything else follows the site's `WAGTAIL_INDEXNOW`.

    :param changed_settings: keys of `WAGTAIL_INDEXNOW` for this block, such as
        `TRANSLATIONS="never"`.
    """
    with _recording(changed_settings) as submissions:
        yield submissions
        submissions.collect()


@contextmanager
def _recording(changed_settings: dict[str, Any]) -> Iterator[Submissions]:
    submissions = Submissions()
    own = getattr(settings, SETTING, None) or {}
    changed = {
        **own,
        "ENABLED": True,
        "ENDPOINTS": {ENDPOINT: ENDPOINT_URL},
        "HOSTS": _HostsOfSites(own.get("HOSTS") or ()),
        "SETTLE_SECONDS": 0,
        "RELAY_INTERVAL": 0,
        **changed_settings,
    }
    # One clock: the database's own would not follow a test that travels in time.
    patched = mock.patch.object(clock, "now", submissions.now)
    with override_settings(**{SETTING: changed}), patched:
        submissions.forget()
        audits.record()
        try:
            yield submissions
        finally:
            submissions.close()


class _HostsOfSites:
    """The hosts of the Sites that are there when it is asked, and some more."""

    def __init__(self, more: Sequence[str]) -> None:
        self._more = more

    def __iter__(self) -> Iterator[str]:
        yield from self._more
        yield from Site.objects.values_list("hostname", flat=True)


def _hints() -> Iterator[str]:
    connection = transaction.get_connection(router.db_for_write(Intent))
    if connection.in_atomic_block and connection.run_on_commit:
        yield (
            f"{len(connection.run_on_commit)} on_commit callback(s) did not run in this test's "
            "transaction. Wagtail tells of a changed slug in one: use captureOnCommitCallbacks("
            "execute=True), or a test without a surrounding transaction."
        )


try:
    import pytest
except ImportError:  # pragma: no cover - a site that tests with Django alone
    pass
else:
    __all__ += ["indexnow_submissions"]

    @pytest.fixture
    def indexnow_submissions(db: None) -> Iterator[Submissions]:
        """Record what the test's changes would make engines be told."""
        # Nothing is collected at the end: a test that failed may leave a broken transaction.
        with _recording({}) as submissions:
            yield submissions
