"""Keys: made once, served, proved as an engine would, rotated without a gap."""

import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest
import time_machine

from tests.factories import make_site
from wagtail_indexnow.constants import KeyFile, Reason
from wagtail_indexnow.exceptions import ConfigurationError
from wagtail_indexnow.models import Channel, HostKey
from wagtail_indexnow.submission import client, keys, served_keys
from wagtail_indexnow.submission.client import Response
from wagtail_indexnow.submission.key_files import instance_token, matches_instance, token_under

pytestmark = pytest.mark.django_db

START = datetime(2026, 12, 1, 18, 0, tzinfo=UTC)
EARLIER = START - timedelta(hours=1)
HOST = "www.example.com"
KEY = "0123456789abcdef0123456789abcdef"


@pytest.fixture(autouse=True)
def at() -> Iterator[Any]:
    with time_machine.travel(START, tick=False) as traveller:
        yield traveller


class Web:
    """Stands for all web servers: what is fetched, and what each address answers."""

    def __init__(self) -> None:
        self.fetched: list[tuple[str, str | None]] = []
        self.serve: Callable[[str], Response] = self.as_we_would

    def fetch(self, url: str, *, connect_to: str | None = None, **values: Any) -> Response:
        self.fetched.append((url, connect_to))
        return self.serve(url)

    @staticmethod
    def as_we_would(url: str) -> Response:
        parts = urlsplit(url)
        return signed(200, parts.path[1:].removesuffix(".txt").encode(), host=parts.netloc)


def signed(status: int, body: bytes, *, host: str = HOST, **headers: str) -> Response:
    return Response(
        status=status,
        is_complete=True,
        headers={
            "x-indexnow-instance": instance_token(host),
            "content-type": "text/plain; charset=utf-8",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        },
        body=body,
    )


@pytest.fixture(autouse=True)
def web(monkeypatch: pytest.MonkeyPatch) -> Web:
    web = Web()
    monkeypatch.setattr(client, "fetch_key_file", web.fetch)
    return web


def check(host: str = HOST, scheme: str = "https", *, fresh: bool = False) -> str:
    """Check a key file whose key every web process has long known of."""
    keys.key_for(host)
    HostKey.objects.filter(host=host).update(created_at=EARLIER)
    return keys.check_key_file(host, scheme, fresh=fresh).result


def prove() -> keys.Proof:
    HostKey.objects.update(created_at=EARLIER)
    return keys.prove(HOST, "https")


def served(host: str = HOST) -> set[str]:
    """Return the keys whose files this process gives out for a host."""
    served_keys.refresh()
    row = HostKey.objects.filter(host=host).first()
    candidates = {KEY, *((row.key, row.previous_key) if row else ())}
    return {key for key in candidates if served_keys.owner(key, [host])}


def configure(settings: Any, **values: Any) -> None:
    settings.WAGTAIL_INDEXNOW = {"ENABLED": True, **values}


def test_c25_a_key_is_32_lower_case_hex_digits_and_kept() -> None:
    made, other = keys.key_for(HOST), keys.key_for("other.example.com")

    assert re.fullmatch(r"[0-9a-f]{32}", made)
    assert made != other
    assert keys.key_for(HOST) == made


def test_b34_a_key_outlives_a_change_of_the_secret_key(settings: Any) -> None:
    made = keys.key_for(HOST)
    settings.SECRET_KEY = "another"

    assert keys.key_for(HOST) == made


def test_c74_making_a_key_never_logs_it_whole(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        made = keys.key_for(HOST)
        check()
        rotated = keys.rotate(HOST)
        keys.revoke(HOST)

    assert caplog.records
    assert made not in caplog.text
    assert rotated not in caplog.text
    assert keys.mask(made) in caplog.text


def test_two_workers_agree_on_one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one's key arrives while ours is being made."""
    make = keys._new_key

    def slowly() -> str:
        monkeypatch.setattr(keys, "_new_key", make)
        keys.key_for(HOST)
        return make()

    monkeypatch.setattr(keys, "_new_key", slowly)

    assert keys.key_for(HOST) == HostKey.objects.get().key


def test_the_sites_own_key_wins_and_replaces_with_overlap(settings: Any) -> None:
    made = keys.key_for(HOST)
    configure(settings, KEYS={HOST.upper(): KEY})

    assert keys.key_for(HOST) == KEY
    assert served() == {KEY, made}


def test_c15_a_key_of_an_idn_host_may_be_written_either_way(settings: Any) -> None:
    configure(settings, KEYS={"München.example": KEY})

    assert keys.key_for("xn--mnchen-3ya.example") == KEY


def test_a_sites_own_key_is_served_before_anything_was_sent(settings: Any) -> None:
    configure(settings, KEYS={HOST: KEY})

    assert served() == {KEY}
    assert served_keys.is_known(KEY)


def test_serving_never_makes_a_key() -> None:
    assert served() == set()
    assert not HostKey.objects.exists()


def test_b16_b19_c05_the_key_is_at_the_root_of_its_own_host(settings: Any) -> None:
    assert keys.key_location("http", HOST, KEY) == f"http://{HOST}/{KEY}.txt"

    configure(settings, SCHEME="https")
    assert keys.key_location("http", HOST, KEY) == f"https://{HOST}/{KEY}.txt"


def test_c32_a_key_file_at_the_root_covers_every_path() -> None:
    # No object beyond this: there is no setting for another place, so nothing is out of scope.
    assert keys.key_location("https", HOST, KEY).removesuffix(f"{KEY}.txt") == f"https://{HOST}/"


def test_c29_the_key_file_is_looked_at_and_a_pass_lasts_a_day(web: Web, at: Any) -> None:
    assert check() == KeyFile.OK
    at.shift(timedelta(hours=23, minutes=59))
    assert check() == KeyFile.OK
    assert web.fetched == [(keys.key_location("https", HOST, keys.key_for(HOST)), None)]

    at.shift(timedelta(minutes=1))
    check()
    assert len(web.fetched) == 2


def test_a_fresh_look_ignores_an_earlier_pass(web: Web) -> None:
    check()
    web.serve = lambda url: signed(404, b"")

    assert check(fresh=True) == KeyFile.NOT_FOUND
    assert check() == KeyFile.NOT_FOUND


def test_a_pass_counts_only_for_its_key(web: Web) -> None:
    check()
    HostKey.objects.update(key=KEY)

    check()

    assert len(web.fetched) == 2


def test_b05_a_pass_in_a_copied_database_does_not_count_here(web: Web, settings: Any) -> None:
    check()
    production = instance_token(HOST)
    settings.SECRET_KEY = "staging"
    web.serve = lambda url: Response(
        status=200,
        headers={"x-indexnow-instance": production},
        body=KEY.encode(),
        is_complete=True,
    )

    assert check() == KeyFile.OTHER_INSTALLATION


def test_a_secret_key_may_change_with_its_fallback(web: Web, settings: Any) -> None:
    check()
    token = instance_token(HOST)
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another"

    assert matches_instance(token, HOST)
    assert check() == KeyFile.OK
    assert len(web.fetched) == 1


def test_the_token_gives_nothing_of_the_secret_key_away(settings: Any) -> None:
    assert settings.SECRET_KEY not in instance_token(HOST)
    assert not matches_instance("", HOST)
    assert not matches_instance("é\u2603", HOST)


CASES: dict[str, tuple[Response, str]] = {
    "not found": (Response(status=404), KeyFile.NOT_FOUND),
    "gone": (Response(status=410), KeyFile.NOT_FOUND),
    "redirect": (Response(status=301, headers={"location": "/x"}), KeyFile.REDIRECT),
    "html": (Response(status=200, headers={"content-type": "text/html"}), KeyFile.HTML),
    "html by its body": (Response(status=200, body=b"\n<!DOCTYPE html><p>"), KeyFile.HTML),
    "bot wall": (
        Response(status=403, body=b"<title>Just a moment...</title>"),
        KeyFile.BOT_WALL,
    ),
    "bot wall with 200": (
        Response(status=200, body=b"<html>Making sure you are not a bot: Anubis"),
        KeyFile.BOT_WALL,
    ),
    "bot wall by header": (
        Response(status=503, headers={"cf-mitigated": "challenge"}),
        KeyFile.BOT_WALL,
    ),
    "forbidden": (Response(status=403), KeyFile.FORBIDDEN),
    "login": (Response(status=401), KeyFile.FORBIDDEN),
    "fault": (Response(status=502), KeyFile.SERVER_FAULT),
    "other status": (Response(status=418), KeyFile.OTHER_BODY),
    "byte order mark": (Response(status=200, body=b"\xef\xbb\xbf" + KEY.encode()), KeyFile.BOM),
    "newline": (Response(status=200, body=KEY.encode() + b"\r\n"), KeyFile.TRAILING_NEWLINE),
    "other body": (Response(status=200, body=b"another"), KeyFile.OTHER_BODY),
    "key that breaks off": (
        Response(status=200, headers={"content-length": "99"}, body=KEY.encode()),
        KeyFile.OTHER_BODY,
    ),
    "refused address": (
        Response(status=None, error=f"address: {HOST} resolves to 10.0.0.5 here"),
        KeyFile.PRIVATE_HOST,
    ),
    "upper case": (Response(status=200, body=KEY.upper().encode()), KeyFile.OTHER_BODY),
    "empty": (Response(status=200), KeyFile.OTHER_BODY),
    "time-out": (Response(status=None, error="timeout: 3 s"), KeyFile.TIMEOUT),
    "no connection": (Response(status=None, error="dns: no such name"), KeyFile.UNREACHABLE),
    "unsigned": (Response(status=200, body=KEY.encode(), is_complete=True), KeyFile.UNSIGNED),
    "other installation": (
        Response(status=200, headers={"x-indexnow-instance": "f" * 32}, body=KEY.encode()),
        KeyFile.OTHER_INSTALLATION,
    ),
    "other installation without this key": (
        Response(status=404, headers={"x-indexnow-instance": "f" * 32}),
        KeyFile.OTHER_INSTALLATION,
    ),
}


@pytest.mark.parametrize(("answer", "result"), CASES.values(), ids=CASES)
def test_c30_reasons_why_a_key_file_fails_are_told_apart(
    web: Web, answer: Response, result: str
) -> None:
    HostKey.objects.create(host=HOST, key=KEY, created_at=EARLIER)
    web.serve = lambda url: answer

    assert check() == result

    kept = HostKey.objects.get()
    assert (kept.check_result, kept.checked_key, kept.checked_at) == (result, KEY, START)
    assert kept.checked_by == ""


@pytest.fixture
def copied(db: None) -> HostKey:
    """The row of a key that production proved, in a copy of its database."""
    return HostKey.objects.create(
        host=HOST,
        key=KEY,
        checked_key=KEY,
        checked_at=START,
        checked_by="f" * 32,
        check_result=KeyFile.OK,
        created_at=START,
    )


@pytest.mark.parametrize(
    ("changes", "signed"),
    [
        ({"CONNECT_TO": {HOST: "http://web:8000"}}, True),
        ({"KEYS": {HOST: KEY}}, False),
    ],
    ids=["its own web server", "a static file"],
)
def test_promise_7_what_a_copy_finds_past_the_public_address_proves_nothing(
    web: Web, settings: Any, copied: HostKey, changes: Any, signed: bool
) -> None:
    configure(settings, **changes)
    if not signed:
        web.serve = lambda url: Response(status=200, body=KEY.encode(), is_complete=True)

    for _look in range(2):
        assert check(fresh=True) == KeyFile.OTHER_INSTALLATION

    settings.SECRET_KEY_FALLBACKS = ["the former secret key"]
    copied.checked_by = token_under("the former secret key", HOST)
    copied.save()
    assert check(fresh=True) == KeyFile.OK
    settings.SECRET_KEY_FALLBACKS = []
    assert check(fresh=True) == KeyFile.OK


def test_a_new_key_belongs_to_whoever_made_it(web: Web, settings: Any, copied: HostKey) -> None:
    configure(settings, CONNECT_TO={HOST: "http://web:8000"})

    keys.rotate(HOST)

    assert check() == KeyFile.OK


def test_a_mark_at_the_public_address_is_proof_whoever_proved_it_before(
    web: Web, copied: HostKey
) -> None:
    assert check() == KeyFile.OK


def test_r35_html_that_is_exactly_the_key_passes_with_a_remark(web: Web) -> None:
    """R35: whatever the content type, an engine compares the body."""
    web.serve = lambda url: replace(
        Web.as_we_would(url), headers={**Web.as_we_would(url).headers, "content-type": "text/html"}
    )
    keys.key_for(HOST)

    proof = prove()

    assert proof.is_ok
    assert "HTML" in proof.detail


def test_r69_the_mark_of_one_host_is_not_that_of_another(web: Web) -> None:
    """R69: a mark that was read from one host proves nothing on another."""
    web.serve = lambda url: replace(
        Web.as_we_would(url), headers={"x-indexnow-instance": instance_token("other.example.com")}
    )

    assert check() == KeyFile.OTHER_INSTALLATION
    assert not matches_instance(instance_token("other.example.com"), HOST)


def test_a_new_key_is_first_fetched_15_seconds_later(web: Web, at: Any) -> None:
    """Until then a web process may not know it, and a cache could keep its 404."""
    proof = keys.prove(HOST, "https", fresh=True)

    assert (proof.result, proof.retry_at, web.fetched) == ("", START + timedelta(seconds=15), [])

    at.shift(timedelta(seconds=15))
    assert keys.prove(HOST, "https").is_ok
    keys.rotate(HOST)
    fetched = len(web.fetched)
    assert keys.prove(HOST, "https").key != keys.key_for(HOST)
    assert all(keys.key_for(HOST) not in url for url, _target in web.fetched[fetched:])

    at.shift(timedelta(seconds=15))
    assert keys.prove(HOST, "https").key == keys.key_for(HOST)


def test_a_key_of_the_settings_need_not_wait(web: Web, settings: Any) -> None:
    configure(settings, KEYS={HOST: KEY})

    assert keys.prove(HOST, "https").is_ok


def test_r67_the_former_file_ends_a_week_after_the_new_one_was_proved(web: Web, at: Any) -> None:
    """R67: a key that leaked does not stay good for ever."""
    former = keys.key_for(HOST)
    new = keys.rotate(HOST)
    at.shift(timedelta(days=30))
    assert served() == {former, new}  # never proved: the former one is still in use

    check()
    served_keys.forget()
    assert served() == {former, new}

    at.shift(timedelta(days=7))
    served_keys.forget()
    assert served() == {new}


def test_r67_with_revoke_the_former_file_ends_at_once(web: Web) -> None:
    """R67: nothing is sent with it either, whatever the new file says."""
    former = keys.key_for(HOST)
    new = keys.rotate(HOST)

    keys.revoke(HOST)

    assert served() == {new}
    web.serve = lambda url: Web.as_we_would(url) if former in url else signed(404, b"")
    assert prove().result == KeyFile.NOT_FOUND
    assert all(former not in url for url, _target in web.fetched)


def test_r67_without_key_file_checks_the_week_begins_with_the_rotation(
    settings: Any, at: Any
) -> None:
    """R67: POSTs change over at once where nothing is checked."""
    configure(settings, VERIFY_KEY_FILE=False)
    keys.key_for(HOST)
    new = keys.rotate(HOST)

    at.shift(timedelta(days=7))
    served_keys.forget()

    assert served() == {new}


def test_r67_a_second_rotation_gives_its_own_former_key_a_week(web: Web, at: Any) -> None:
    """R67: the end of the last rotation is not that of the next."""
    keys.key_for(HOST)
    second = keys.rotate(HOST)
    check()
    at.shift(timedelta(days=8))

    third = keys.rotate(HOST)

    assert served() == {second, third}


def test_a_static_file_passes_for_a_host_in_keys(web: Web, settings: Any) -> None:
    configure(settings, KEYS={HOST: KEY})
    web.serve = lambda url: Response(status=200, body=KEY.encode(), is_complete=True)

    assert check() == KeyFile.OK


def test_even_for_a_host_in_keys_another_installation_is_another(web: Web, settings: Any) -> None:
    configure(settings, KEYS={HOST: KEY})
    web.serve = lambda url: CASES["other installation"][0]

    assert check() == KeyFile.OTHER_INSTALLATION


def test_c31_no_request_goes_to_a_host_that_is_not_the_sites(web: Web) -> None:
    assert check("evil.example.net") == KeyFile.FOREIGN_HOST
    assert web.fetched == []


def test_the_operator_may_name_hosts_that_are_no_sites(web: Web, settings: Any) -> None:
    configure(settings, HOSTS=["News.Example.org"])

    assert check("news.example.org") == KeyFile.OK


def test_a_key_in_the_settings_makes_no_host_our_own(web: Web, settings: Any) -> None:
    configure(settings, KEYS={"news.example.org": KEY})

    assert check("news.example.org") == KeyFile.FOREIGN_HOST
    assert web.fetched == []


def test_r62_a_site_record_makes_no_host_our_own(web: Web) -> None:
    """R62: an editor may name a Site after any host; only `ALLOWED_HOSTS` and `HOSTS` count."""
    make_site("intranet.example.org")

    assert check("intranet.example.org") == KeyFile.FOREIGN_HOST
    assert web.fetched == []


def test_r62_an_odd_port_is_not_called(web: Web) -> None:
    """R62: engines ask at 80 and 443; another port is a service of its own."""
    assert check(f"{HOST}:8443") == KeyFile.PRIVATE_HOST
    assert web.fetched == []


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "10.0.0.5", "db.local", "x.test", "127.1", "0x7f.1"]
)
def test_c23_a_private_host_is_called_only_for_an_engine_on_loopback(
    web: Web, settings: Any, host: str
) -> None:
    """R62 too, for numbers that a resolver takes for an address."""
    settings.ALLOWED_HOSTS = [host]
    configure(settings)

    assert check(host, "http") == KeyFile.PRIVATE_HOST
    assert web.fetched == []

    configure(settings, ENDPOINTS={"local": "http://127.0.0.1:9000/indexnow"})
    assert check(host, "http") == KeyFile.OK


def test_connect_to_is_the_operators_word(web: Web, settings: Any) -> None:
    target = "http://10.0.0.5:8000"
    configure(settings, CONNECT_TO={"Other.example.com": target})

    assert check("other.example.com") == KeyFile.OK

    key = keys.key_for("other.example.com")
    assert web.fetched == [(f"https://other.example.com/{key}.txt", target)]


def test_c34_b25_after_a_rotation_both_files_are_served() -> None:
    old = keys.key_for(HOST)

    new = keys.rotate(HOST)

    assert new != old
    assert served() == {new, old}
    assert keys.key_for(HOST) == new


def test_c34_posts_keep_the_old_key_until_the_new_file_answers(web: Web) -> None:
    old = keys.key_for(HOST)
    new = keys.rotate(HOST)
    web.serve = lambda url: Web.as_we_would(url) if old in url else signed(404, b"")

    assert prove() == keys.Proof(key=old, result=KeyFile.OK)

    web.serve = Web.as_we_would
    assert prove() == keys.Proof(key=new, result=KeyFile.OK)


def test_without_either_file_nothing_is_proved(web: Web) -> None:
    keys.key_for(HOST)
    new = keys.rotate(HOST)
    web.serve = lambda url: signed(404, b"")

    proof = prove()

    assert (proof.key, proof.result, proof.is_ok) == (new, KeyFile.NOT_FOUND, False)


def test_another_installation_is_found_out_behind_the_old_key_too(web: Web) -> None:
    old = keys.key_for(HOST)
    keys.rotate(HOST)
    web.serve = lambda url: CASES["other installation"][0] if old in url else Response(status=404)

    assert prove().result == KeyFile.OTHER_INSTALLATION


def test_a_rotation_ends_holds_that_a_new_key_is_the_cure_for() -> None:
    keys.key_for(HOST)
    later = START + timedelta(days=1)
    for endpoint, reason in (("one", Reason.KEY_REFUSED), ("two", Reason.RATE_LIMITED)):
        Channel.objects.create(
            endpoint=endpoint, host=HOST, pause_reason=reason, not_before=later, verified_at=START
        )

    keys.rotate(HOST)

    # Never before the host's next turn after the POST that raised the pause.
    assert Channel.objects.get(endpoint="one").not_before == START + timedelta(seconds=60)
    assert Channel.objects.get(endpoint="two").not_before == later
    assert not Channel.objects.exclude(verified_at=None).exists()


def test_a_key_that_the_settings_name_is_not_rotated(settings: Any) -> None:
    configure(settings, KEYS={HOST: KEY})

    with pytest.raises(ConfigurationError, match="KEYS") as caught:
        keys.rotate(HOST)

    assert KEY not in str(caught.value)


def test_a_rotation_that_somebody_else_outran_changes_nothing() -> None:
    keys.key_for(HOST)
    stale = HostKey.objects.get()
    winner = keys.rotate(HOST)

    keys._change_over(stale, KEY)

    assert (stale.key, HostKey.objects.get().key) == (winner, winner)


def test_a_look_that_was_outrun_by_a_rotation_is_not_written_down(web: Web) -> None:
    def rotate_meanwhile(url: str) -> Response:
        keys.rotate(HOST)
        return Web.as_we_would(url)

    web.serve = rotate_meanwhile

    check()

    assert HostKey.objects.get().checked_at is None


def test_c27_known_keys_are_known_exactly_as_written() -> None:
    HostKey.objects.create(host=HOST, key="abcdefgh", previous_key="old-key-1", created_at=START)
    served_keys.refresh()

    assert served_keys.is_known("abcdefgh")
    assert served_keys.is_known("old-key-1")
    assert not served_keys.is_known("ABCDEFGH")
    assert not served_keys.is_known("")
