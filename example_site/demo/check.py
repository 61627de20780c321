"""The demo without a person: schedule a page in the admin, and judge what the engine hears."""

import json
import math
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from example_site.demo.browser import Browser, Document
from example_site.demo.errors import DemoError
from example_site.demo.processes import Processes
from example_site.demo.stack import Plan, make_plan, start, wait_for

TITLE = "A night at the museum"
PAGE_PATH = "/en/exhibitions/a-night-at-the-museum/"
LOGIN = {"username": "moderator", "password": "moderator"}

GO_LIVE_IN_S = 8
FIRST_WAIT_S = 90.0
ANSWER_WAIT_S = 60.0
# Longer than all that could bring a second submission: settling, the gap between two sends of
# one URL (shortened here), the pace of a host, the relay.
QUIET_S = 10.0
RESUBMIT_AFTER_S = 3

Record = dict[str, Any]


def main() -> int:
    """Run the check in a directory of its own; return the exit status."""
    started = time.monotonic()
    with _temporary_directory() as var:
        plan = make_plan(
            var,
            publish_every_s=2.0,
            environment={
                "EXAMPLE_TIME_ZONE": "UTC",
                "EXAMPLE_RESUBMIT_AFTER": str(RESUBMIT_AFTER_S),
            },
        )
        with Processes(var / "logs", plan.all_environment()) as processes:
            try:
                start(processes, plan, is_shown=False)
                Check(plan, processes).run()
            except DemoError as error:
                print(processes.tails())
                print(f"\nFAILED: {error}", flush=True)
                return 1
    print(f"PASSED in {time.monotonic() - started:.0f} s.", flush=True)
    return 0


@contextmanager
def _temporary_directory() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="indexnow-demo-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def require(is_true: bool, wrong: str) -> None:
    """Go on only if something is so.

    :raises DemoError: with what is wrong.
    """
    if not is_true:
        raise DemoError(wrong)


def say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", flush=True)


@dataclass(frozen=True, kw_only=True)
class Observed:
    """When a scheduled page was due, seen to be public, and told to the engine."""

    due_at: float
    public_at: float
    record: Record


class Check:
    """One run, from the first announcement of the whole site to the scheduled page."""

    def __init__(self, plan: Plan, processes: Processes) -> None:
        self._plan = plan
        self._processes = processes
        self._browser = Browser()
        self._page_url = plan.museum_url + PAGE_PATH

    def run(self) -> None:
        """Do all of it.

        :raises DemoError: with the first thing that is wrong.
        """
        self._await_first_announcement()
        seen = len(self._records())
        due_at = float(math.ceil(time.time()) + GO_LIVE_IN_S)
        self._schedule(due_at)
        observed = self._await_record(seen, due_at)
        self._print(observed)
        self._judge(observed)
        self._stay_quiet(seen)

    def _await_first_announcement(self) -> None:
        """Wait until the engine knows exactly the pages that a visitor can reach."""
        public = self._reachable_urls()
        say(f"The two Sites have {len(public)} public pages; waiting for the engine to know them.")
        wait_for(
            "The announcement of the pages that are public already",
            lambda: public <= self._told_urls(),
            self._processes,
            timeout_s=FIRST_WAIT_S,
        )
        self._require_told(public)

    def _schedule(self, due_at: float) -> None:
        """Set the go-live time in the page's edit form, as a moderator."""
        admin = f"{self._plan.museum_url}/admin"
        page = self._browser.get(f"{admin}/login/")
        page = self._browser.submit(page, page.form("/admin/login/"), LOGIN)
        require(page.url == f"{admin}/", f"The login led to {page.url}.")
        page = self._browser.get(f"{admin}/pages/search/?{urlencode({'q': TITLE})}")
        edit_url = next((url for url, text in page.links.items() if text == TITLE), None)
        require(edit_url is not None, f"The admin does not find {TITLE!r}.")
        page = self._browser.get(str(edit_url))
        values = {
            "go_live_at": f"{datetime.fromtimestamp(due_at, UTC):%Y-%m-%d %H:%M:%S}",
            "action-publish": "action-publish",
        }
        answer = self._browser.submit(page, page.form("page-edit-form"), values)
        require(
            "scheduled for publishing" in answer.text,
            f"The admin did not schedule the page: {answer.status} at {answer.url}.",
        )
        say(f"Scheduled {TITLE!r} for {values['go_live_at']} UTC.")

    def _await_record(self, seen: int, due_at: float) -> Observed:
        """Watch page and engine until the engine has heard of the page."""
        public_at = math.inf

        def heard() -> Record | None:
            nonlocal public_at
            record = next(iter(self._records_of_page(seen)), None)
            if math.isinf(public_at):
                is_public = self._browser.get(self._page_url).status == 200
                require(not is_public or time.time() >= due_at, "The page was public too early.")
                public_at = time.time() if is_public else math.inf
            require(
                record is None or not math.isinf(public_at),
                "The engine heard of the page while it was not public.",
            )
            return record

        timeout_s = due_at - time.time() + ANSWER_WAIT_S
        record = wait_for("The submission", heard, self._processes, timeout_s=timeout_s)
        return Observed(due_at=due_at, public_at=public_at, record=record)

    def _print(self, observed: Observed) -> None:
        say("The engine's record of the submission:")
        print(json.dumps(observed.record, indent=2, ensure_ascii=False), flush=True)
        due_at, at = observed.due_at, observed.record["at"]
        say(
            f"Public {observed.public_at - due_at:.1f} s after the go-live time, "
            f"told {at - due_at:.1f} s after it."
        )

    def _judge(self, observed: Observed) -> None:
        """Compare the submission with what the public page and its host say."""
        record, netloc = observed.record, urlsplit(self._page_url).netloc
        require(record["at"] >= observed.due_at, "It came before the go-live time.")
        require(record["at"] >= observed.public_at, "It came before the page was public.")
        require(record["method"] == "POST" and record["path"] == "/indexnow", "It is no POST.")
        require(record["status"] == 200, f"The engine answered {record['status']}.")
        require(not record["anomalies"], f"The engine remarks {record['anomalies']}.")
        body = record["parsed"]
        require(set(body) == {"host", "key", "keyLocation", "urlList"}, "It has other fields.")
        require(body["host"] in (netloc, urlsplit(self._page_url).hostname), "The host is wrong.")
        self._judge_key(netloc, body["key"], body["keyLocation"])
        self._judge_urls(body["urlList"])

    def _judge_key(self, netloc: str, key: str, location: str) -> None:
        require(location == f"http://{netloc}/{key}.txt", f"keyLocation is {location}.")
        file = self._browser.get(location)
        require((file.status, file.text) == (200, key), "The key file does not hold the key.")
        other = self._browser.get(f"{self._plan.news_url}/{key}.txt")
        require(other.status == 404, "The other Site serves this Site's key.")

    def _judge_urls(self, urls: list[str]) -> None:
        """The page itself, and with it at most its translations, whose alternates it changes."""
        alternates = self._browser.get(self._page_url).alternates
        require(urls.count(self._page_url) == 1, f"It does not name the page once: {urls}.")
        require(len(set(urls)) == len(urls), f"It names a URL twice: {urls}.")
        require(set(urls) <= set(alternates), f"It names other pages as well: {urls}.")

    def _stay_quiet(self, seen: int) -> None:
        """Wait for a second submission that must not come, then look at everything once more."""
        say(f"Listening for {QUIET_S:.0f} s more: there must be no second one.")
        deadline = time.monotonic() + QUIET_S
        while time.monotonic() < deadline:
            self._processes.watch()
            time.sleep(0.5)
        times = len(self._records_of_page(seen))
        require(times == 1, f"The engine was told of the page {times} times.")
        told = [url for record in self._records()[seen:] for url in record["urls"]]
        require(len(set(told)) == len(told), f"The engine was told a URL twice: {told}.")
        alternates = set(self._browser.get(self._page_url).alternates)
        require(set(told) == alternates, f"Told are {told}, not {sorted(alternates)}.")
        self._require_told(self._reachable_urls())
        say("One submission, after go-live, with the right URLs; nothing else was sent.")

    def _require_told(self, public: set[str]) -> None:
        refused = [record for record in self._records() if not record["is_accepted"]]
        require(not refused, f"The engine refused something: {json.dumps(refused, indent=2)}")
        extra = sorted(self._told_urls() - public)
        require(not extra, f"The engine was told of URLs that nobody can reach: {extra}.")
        missing = sorted(public - self._told_urls())
        require(not missing, f"The engine was not told of {missing}.")

    def _reachable_urls(self) -> set[str]:
        """Return every page of both Sites that a visitor reaches by following links."""
        bases = (self._plan.museum_url, self._plan.news_url)
        waiting = [f"{base}/en/" for base in bases]
        found: set[str] = set()
        while waiting:
            page = self._browser.get(waiting.pop())
            require(page.status == 200, f"{page.url} answers {page.status}.")
            found.add(page.url)
            waiting += [url for url in _pages_linked(page, bases) if url not in {*found, *waiting}]
        return found

    def _records(self) -> list[Record]:
        text = self._browser.get(f"{self._plan.engine_url}/_engine/requests").text
        records: list[Record] = json.loads(text)
        return records

    def _records_of_page(self, seen: int) -> list[Record]:
        return [record for record in self._records()[seen:] if self._page_url in record["urls"]]

    def _told_urls(self) -> set[str]:
        return {url for record in self._records() for url in record["urls"]}


def _pages_linked(page: Document, bases: tuple[str, ...]) -> Iterator[str]:
    for url in page.links:
        parts = urlsplit(url)
        is_ours = f"{parts.scheme}://{parts.netloc}" in bases
        # The rest is the admin, and "/", which only leads to a language.
        if is_ours and parts.path.startswith(("/en/", "/fr/", "/de/")):
            yield url
