"""What works and what does not: `health.check_all()` and `indexnow_check`."""

import io
import json
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dramatiq
import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.utils import timezone
from dramatiq.brokers.redis import RedisBroker
from wagtail.models import Page, Site

from example_site.engine import Answer
from tests.factories import make_page, publish
from tests.processes import Redis
from tests.testapp.models import BrokenPage
from wagtail_indexnow.diagnostics import brokers
from wagtail_indexnow.diagnostics.findings import Finding
from wagtail_indexnow.diagnostics.health import check_all
from wagtail_indexnow.ledger import channels, heartbeats
from wagtail_indexnow.models import Channel, HostKey, Intent, TrackedUrl
from wagtail_indexnow.submission import keys

pytestmark = pytest.mark.django_db(transaction=True)
HOST = "www.example.com"


@pytest.fixture
def only_site(site: Any, clock_at: Any) -> Any:
    """Make the Site of the tests the only one: Wagtail's own is called localhost."""
    Site.objects.exclude(pk=site.pk).delete()
    return site


@pytest.fixture
def news(only_site: Any) -> Any:
    return make_page(only_site.root_page, "news")


@pytest.fixture
def healthy(indexnow: Any, news: Any) -> Any:
    """Have everything seen at work once."""
    publish(news)
    indexnow.settle()
    return news


def named(name: str, *, live: bool = False) -> list[Finding]:
    return [finding for finding in check_all(live=live) if finding.name == name]


def one(name: str, *, live: bool = False) -> Finding:
    [finding] = named(name, live=live)
    assert finding.remedy or finding.severity != "action"
    return finding


def test_everything_that_was_seen_at_work_is_fine(indexnow: Any, healthy: Any) -> None:
    indexnow.audit()

    assert {finding.name: finding.severity.value for finding in check_all()} == {
        "switched_on": "ok",
        "key_file": "info",
        "broker": "info",
        "relay": "ok",
        "worker": "ok",
        "publish_scheduled": "info",
        "audit": "ok",
        "pending": "ok",
        "last_response": "ok",
    }


class TestSwitch:
    def test_b05_switched_off(self, indexnow: Any, healthy: Any) -> None:
        indexnow.configure(ENABLED=False)

        assert [(item.name, item.severity) for item in check_all()] == [("switched_on", "action")]

    def test_b05_dry_run(self, indexnow: Any, healthy: Any) -> None:
        indexnow.configure(DRY_RUN=True)

        assert one("switched_on").severity == "info"
        assert "Dry run" in one("switched_on").message

    def test_wrong_settings_are_all_there_is_to_say(self, indexnow: Any, healthy: Any) -> None:
        indexnow.configure(TIMEOUT="ten")

        assert [item.name for item in check_all()] == ["wagtail_indexnow.E002"]

    def test_system_checks_are_among_the_findings(
        self, indexnow: Any, healthy: Any, settings: Any
    ) -> None:
        settings.SECURE_SSL_REDIRECT = True
        Site.objects.update(port=80)

        finding = one("wagtail_indexnow.W007")
        assert "443" in finding.remedy
        settings.SILENCED_SYSTEM_CHECKS = ["wagtail_indexnow.W007"]
        assert named("wagtail_indexnow.W007") == []


def make_known_key(host: str = HOST) -> None:
    """Have a key that every web process has long known of."""
    keys.key_for(host)
    HostKey.objects.update(created_at=timezone.now() - timedelta(hours=1))


class TestKeyFiles:
    @pytest.fixture
    def served(self, indexnow: Any, only_site: Any, live_server: Any) -> Any:
        """Let the key file be fetched from a server of ours."""
        only_site.port = 443
        indexnow.configure(VERIFY_KEY_FILE=True, CONNECT_TO={HOST: live_server.url})
        make_known_key()
        return live_server

    def test_good_file(self, served: Any) -> None:
        assert one("key_file", live=True).severity == "ok"
        assert one("key_file", live=True).subject == HOST

    def test_last_check_is_remembered(self, served: Any) -> None:
        assert one("key_file").severity == "info"
        keys.prove(HOST, "https")
        assert one("key_file").severity == "ok"

    def test_b23_look_of_another_installation_does_not_count(
        self, served: Any, settings: Any
    ) -> None:
        keys.prove(HOST, "https")
        settings.SECRET_KEY = "another"

        assert one("key_file").severity == "info"

    def test_b23_file_of_another_key(self, served: Any) -> None:
        HostKey.objects.create(host="other.example.com", key="a" * 32, created_at=timezone.now())
        row = HostKey.objects.get(host=HOST)
        keys.prove(HOST, "https", fresh=True)
        HostKey.objects.filter(pk=row.pk).update(check_result="other_body")

        finding = one("key_file")
        assert finding.severity == "action"
        assert finding.message == "The key file contains something else."
        assert "wagtail_indexnow.urls" in finding.remedy

    def test_key_is_never_shown(self, served: Any) -> None:
        found = check_all()

        assert HostKey.objects.get().key not in str(found)

    def test_unreachable_host(self, indexnow: Any, only_site: Any) -> None:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        indexnow.configure(VERIFY_KEY_FILE=True, CONNECT_TO={HOST: url})
        make_known_key()

        finding = one("key_file", live=True)
        assert finding.severity == "action"
        assert "could not be reached" in finding.message

    def test_new_key_is_not_checked_at_once(self, indexnow: Any, only_site: Any) -> None:
        indexnow.configure(VERIFY_KEY_FILE=True)

        finding = one("key_file", live=True)
        assert finding.severity == "info"
        assert "in a few seconds" in finding.message

    def test_r62_a_private_address_is_named(
        self, indexnow: Any, only_site: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """R62: the operator reads what the name resolves to, and which setting helps."""
        info = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.5", 443))
        monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: [info])
        indexnow.configure(VERIFY_KEY_FILE=True)
        make_known_key()

        finding = one("key_file", live=True)
        assert f"{HOST} resolves to 10.0.0.5 here: set CONNECT_TO" in finding.message
        assert "CONNECT_TO" in finding.remedy

    def test_rotation_under_way(self, served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        former = keys.key_for(HOST)
        keys.rotate(HOST)
        proof = keys.Proof(key=former, result="ok")
        monkeypatch.setattr(keys, "prove", lambda *args, **kwargs: proof)

        finding = one("key_file", live=True)
        assert finding.severity == "info"
        assert "former key is in use" in finding.message

    def test_host_that_is_not_served(self, indexnow: Any, only_site: Any) -> None:
        Site.objects.update(hostname="www.elsewhere.org")

        assert "ALLOWED_HOSTS" in one("host").remedy

    def test_b06_private_host(self, indexnow: Any, only_site: Any) -> None:
        Site.objects.update(hostname="localhost")

        assert "public name" in one("host").remedy

    def test_hosts_of_the_setting_are_looked_at_too(self, indexnow: Any, only_site: Any) -> None:
        indexnow.configure(HOSTS=["shop.example.com", HOST, "not a host"])

        assert [item.subject for item in named("key_file")] == [HOST, "shop.example.com"]

    def test_site_without_a_usable_name_is_passed_over(self, indexnow: Any, only_site: Any) -> None:
        Site.objects.update(hostname="*")

        assert named("host") == named("key_file") == []
        assert one("wagtail_indexnow.W006")


class TestBroker:
    @pytest.fixture
    def use(self) -> Iterator[Any]:
        former = dramatiq.get_broker()
        from wagtail_indexnow import tasks

        actors = (tasks.announce, tasks.submit)

        def set_broker(broker: Any) -> None:
            dramatiq.set_broker(broker)
            for actor in actors:
                actor.broker = broker

        yield set_broker
        set_broker(former)

    @pytest.fixture
    def closed_port(self) -> int:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            return int(closed.getsockname()[1])

    @pytest.fixture
    def deaf_port(self) -> Iterator[int]:
        """A server that takes connections and never answers."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            yield int(server.getsockname()[1])

    def test_redis_that_answers(self, indexnow: Any, healthy: Any, use: Any) -> None:
        use(fake_broker(FakeRedis()))

        assert one("broker", live=True).severity == "ok"
        assert len(named("broker", live=True)) == 1

    @pytest.mark.parametrize(
        ("memory", "evicts"),
        [
            ({"maxmemory": 100, "maxmemory_policy": "allkeys-lru"}, True),
            ({"maxmemory": 0, "maxmemory_policy": "allkeys-lru"}, False),
            ({"maxmemory": 100, "maxmemory_policy": "volatile-lru"}, False),
            ({"maxmemory": 100, "maxmemory_policy": "noeviction"}, False),
            ({}, False),
        ],
    )
    def test_redis_that_throws_messages_away(
        self, indexnow: Any, healthy: Any, use: Any, memory: dict[str, Any], evicts: bool
    ) -> None:
        use(fake_broker(FakeRedis(**memory)))

        found = [item.severity for item in named("broker", live=True)]
        assert found == ["ok", "action"] if evicts else ["ok"]

    def test_r34_redis_user_without_info(
        self, indexnow: Any, healthy: Any, own_redis: RedisBroker
    ) -> None:
        """R34: `+@all -@dangerous`, as hosted Redis gives it, is enough for Dramatiq."""
        own_redis.client.execute_command(
            "ACL", "SETUSER", "default", "resetkeys", "~dramatiq:*", "-@dangerous"
        )

        assert one("broker", live=True).severity == "ok"
        assert len(named("broker", live=True)) == 1

    def test_r34_redis_that_is_read_only(
        self, indexnow: Any, healthy: Any, own_redis: RedisBroker
    ) -> None:
        """R34: a replica responds to everything but a message."""
        own_redis.client.execute_command("REPLICAOF", "127.0.0.1", "1")

        finding = one("broker", live=True)
        assert finding.severity == "action"
        assert "cannot be written to" in finding.message
        assert "primary" in finding.remedy

    def test_r34_redis_that_is_full(
        self, indexnow: Any, healthy: Any, own_redis: RedisBroker
    ) -> None:
        """R34: with `noeviction`, which is right, a full Redis refuses messages."""
        own_redis.client.config_set("maxmemory", 1)

        finding = one("broker", live=True)
        assert finding.severity == "action"
        assert "cannot be written to" in finding.message

    @pytest.fixture
    def own_redis(self, use: Any, tmp_path: Path) -> Iterator[RedisBroker]:
        """A Redis that this test may spoil."""
        server = Redis(tmp_path).start()
        broker = RedisBroker(url=server.url, middleware=[])
        use(broker)
        yield broker
        broker.close()
        server.kill()

    def test_d16_redis_that_is_away(
        self, indexnow: Any, healthy: Any, use: Any, closed_port: int
    ) -> None:
        broker = RedisBroker(url=f"redis://:secret@127.0.0.1:{closed_port}/0", middleware=[])
        use(broker)

        finding = one("broker", live=True)
        broker.close()
        assert finding.severity == "action"
        assert "secret" not in finding.message

    def test_d16_redis_that_never_answers_costs_bounded_time(self, deaf_port: int) -> None:
        broker = RedisBroker(url=f"redis://127.0.0.1:{deaf_port}/0?socket_timeout=2", middleware=[])

        answer = brokers.ask(broker, timeout_s=0.2)

        assert answer.error == "no answer within 0.2 s"
        for thread in threading.enumerate():
            if thread.name == "wagtail_indexnow.broker":
                thread.join(timeout=30)
        broker.close()

    def test_rabbitmq_that_answers(self) -> None:
        broker = FakeRabbitmqBroker()

        assert brokers.ask(broker) == brokers.BrokerAnswer()  # type: ignore[arg-type]
        assert broker.log == ["opened", "asked", "closed"]

    def test_site_without_django_dramatiq_has_none(
        self, indexnow: Any, healthy: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(apps, "is_installed", lambda name: name != "django_dramatiq")

        assert named("broker", live=True) == []

    def test_broker_is_asked_only_live(self, indexnow: Any, healthy: Any) -> None:
        assert named("broker", live=False) == []


def fake_broker(client: Any) -> Any:
    return SimpleNamespace(client=client, namespace="dramatiq", middleware=[])


class FakeRedis:
    def __init__(self, **memory: Any) -> None:
        self._memory = memory

    def ping(self) -> bool:
        return True

    def set(self, name: str, value: int, px: int) -> bool:
        assert (name, px) == ("dramatiq:wagtail_indexnow.check", 1_000)
        return True

    def info(self, section: str) -> dict[str, Any]:
        assert section == "memory"
        return self._memory


class FakeRabbitmqBroker:
    """As much of Dramatiq's broker as opens and closes a connection."""

    def __init__(self) -> None:
        self.log: list[str] = []

    @property
    def connection(self) -> Any:
        self.log.append("opened")
        return SimpleNamespace(process_data_events=lambda time_limit: self.log.append("asked"))

    @connection.deleter
    def connection(self) -> None:
        self.log.append("closed")


class TestWorkers:
    def test_relay_that_was_never_seen(self, indexnow: Any, only_site: Any) -> None:
        finding = one("relay")
        assert finding.severity == "action"
        assert "never" in finding.message
        assert "rundramatiq" in finding.remedy

    def test_relay_that_stopped(self, indexnow: Any, healthy: Any) -> None:
        indexnow.travel_to(timezone.now() + timedelta(minutes=11))

        assert "last ran on" in one("relay").message

    def test_d09_d16_work_that_nobody_takes(self, indexnow: Any, news: Any) -> None:
        """Counted from the rows, not from the broker's gauges."""
        publish(news)
        assert one("worker").severity == "info"
        indexnow.travel_to(timezone.now() + timedelta(minutes=1))
        Intent.objects.update(handed_at=timezone.now(), handed_count=1)
        indexnow.travel_to(timezone.now() + timedelta(minutes=11))

        finding = one("worker")
        assert finding.severity == "action"
        assert "“default”" in finding.remedy

    def test_worker_that_died_with_work_in_hand(self, indexnow: Any, healthy: Any) -> None:
        publish(Page.objects.get(pk=healthy.pk))
        indexnow.travel_to(timezone.now() + timedelta(minutes=1))
        Intent.objects.update(handed_at=timezone.now(), handed_count=1)
        indexnow.travel_to(timezone.now() + timedelta(minutes=11))
        assert one("worker").severity == "action"

        heartbeats.beat("worker")
        assert one("worker").severity == "ok"

    def test_b27_work_that_waits_too_long(self, indexnow: Any, news: Any) -> None:
        publish(news)
        indexnow.travel_to(timezone.now() + timedelta(minutes=20))
        assert one("pending").severity == "ok"
        assert "has been due since" in one("pending").message

        indexnow.travel_to(timezone.now() + timedelta(minutes=20))
        assert one("pending").severity == "action"

    def test_url_that_waits_too_long(self, indexnow: Any, healthy: Any) -> None:
        TrackedUrl.objects.update(state="pending", not_before=timezone.now())
        channels.compare()
        indexnow.travel_to(timezone.now() + timedelta(minutes=40))
        assert one("pending").severity == "action"

        channels.pause_host(
            "engine", HOST, reason="rate_limited", until=timezone.now() + timedelta(hours=1)
        )
        assert one("pending").severity == "info"


class TestPublishScheduled:
    def test_w07_go_live_that_is_overdue(self, indexnow: Any, news: Any) -> None:
        news.go_live_at = datetime(2026, 12, 1, 10, tzinfo=UTC)
        news.save_revision().publish()
        indexnow.travel_to(news.go_live_at + timedelta(minutes=1))
        indexnow.work()
        assert one("publish_scheduled").severity == "info"

        indexnow.travel_to(news.go_live_at + timedelta(hours=3))

        finding = one("publish_scheduled")
        assert finding.severity == "action"
        assert finding.message.startswith("1 page is overdue")

    def test_w07_expiry_that_is_overdue(self, indexnow: Any, healthy: Any) -> None:
        Page.objects.filter(pk=healthy.pk).update(expire_at=timezone.now())
        indexnow.travel_to(timezone.now() + timedelta(hours=3))

        assert one("publish_scheduled").severity == "action"

    def test_seen_at_work(self, indexnow: Any, news: Any) -> None:
        news.go_live_at = datetime(2026, 12, 1, 10, tzinfo=UTC)
        news.save_revision().publish()
        indexnow.travel_to(news.go_live_at + timedelta(minutes=1))
        call_command("publish_scheduled")

        finding = one("publish_scheduled")
        assert finding.severity == "ok"
        assert "Dec. 1, 2026 10:01" in finding.message


class TestAnswers:
    def test_b07_engine_that_asks_to_slow_down(self, indexnow: Any, news: Any) -> None:
        indexnow.engine.answer(Answer(status=429, headers={"Retry-After": "7200"}))
        publish(news)
        indexnow.settle()

        pause = one("pause")
        # It passes without anybody doing anything: a monitor must not call an operator.
        assert (pause.severity, pause.subject) == ("info", "engine")
        assert pause.message == "Too many requests (429). Paused until Dec. 1, 2026 11:00."
        answer = one("last_response")
        assert answer.severity == "info"
        assert answer.message == "Too many requests (429). Response 429 on Dec. 1, 2026 09:00."

    def test_b13_refused_key_says_how_to_rotate(self, indexnow: Any, healthy: Any) -> None:
        until = timezone.now() + timedelta(hours=1)
        channels.pause_host("engine", HOST, reason="key_refused", until=until)

        assert "indexnow_rotate_key" in one("pause").remedy

    def test_hold_that_is_over_waits_for_its_proof(self, indexnow: Any, healthy: Any) -> None:
        channels.pause_host("engine", HOST, reason="rate_limited", until=timezone.now())
        Channel.objects.update(not_before=timezone.now() - timedelta(minutes=1))

        assert one("pause").severity == "info"

    def test_b29_every_post_fails(self, indexnow: Any, news: Any) -> None:
        """B29: rows stay for another try, and the check reports failure."""
        indexnow.engine.answer(Answer(status=503))
        publish(news)
        indexnow.work()

        assert one("last_response").severity == "action"
        assert TrackedUrl.objects.get().state == "pending"

    def test_channel_without_any_answer(self, indexnow: Any, healthy: Any) -> None:
        channels.ensure([("engine", ""), ("engine", "new.example.com")])

        found = {item.subject: item.severity for item in named("last_response")}
        assert found == {
            "engine new.example.com": "info",
            "engine www.example.com": "ok",
        }

    def test_dry_run_proves_nothing(self, indexnow: Any, news: Any) -> None:
        indexnow.configure(DRY_RUN=True)
        publish(news)
        indexnow.settle()

        assert one("last_response").severity == "info"

    def test_engine_that_is_no_longer_configured_is_left_out(
        self, indexnow: Any, healthy: Any
    ) -> None:
        indexnow.configure(ENDPOINTS={"other": indexnow.engine.endpoint})

        assert named("last_response") == []


class TestCommand:
    def test_all_is_well(self, indexnow: Any, healthy: Any) -> None:
        out = io.StringIO()

        call_command("indexnow_check", stdout=out)

        assert "[OK] relay: The relay is running." in out.getvalue()
        assert "[Action needed]" not in out.getvalue()

    def test_trouble_fails_the_command(self, indexnow: Any, only_site: Any) -> None:
        out = io.StringIO()

        with pytest.raises(CommandError, match=r"1 of \d findings") as caught:
            call_command("indexnow_check", stdout=out)

        assert caught.value.returncode == 1
        assert "[Action needed] relay: The relay has never run" in out.getvalue()
        assert "     Start a worker" in out.getvalue()

    def test_speaks_json(self, indexnow: Any, healthy: Any) -> None:
        out = io.StringIO()

        call_command("indexnow_check", json=True, stdout=out)

        report = json.loads(out.getvalue())
        assert report["ok"] is True
        assert report["findings"][0] == {
            "name": "switched_on", "severity": "ok", "message": "IndexNow is switched on.",
            "remedy": "", "subject": "",
        }  # fmt: skip


class TestRejected:
    def test_says_how_many_urls_were_rejected_lately(self, indexnow: Any, news: Any) -> None:
        indexnow.engine.answer(Answer(status=422))
        publish(news)
        indexnow.settle()

        assert one("rejected").severity == "action"
        assert one("rejected").message.startswith("1 URL")

    def test_forgets_rejections_after_a_week(self, indexnow: Any, news: Any) -> None:
        indexnow.engine.answer(Answer(status=422))
        publish(news)
        indexnow.settle()
        TrackedUrl.objects.update(changed_at=timezone.now() - timedelta(days=8))

        assert named("rejected") == []


class TestPageErrors:
    def test_page_whose_code_fails_is_counted(
        self, indexnow: Any, only_site: Any, clock_at: Any
    ) -> None:
        publish(make_page(only_site.root_page, "broken", model=BrokenPage))
        assert named("page_error") == []
        indexnow.work()

        finding = one("page_error")
        assert finding.severity == "action"
        assert finding.message.startswith("The code of 1 page fails")

    def test_page_that_was_given_up_long_ago_is_history(self, indexnow: Any, healthy: Any) -> None:
        now = timezone.now()
        Intent.objects.update(state="failed", reason="page_error", finished_at=now)
        assert one("page_error").severity == "action"

        Intent.objects.update(finished_at=now - timedelta(days=8))
        assert named("page_error") == []
