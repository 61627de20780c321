"""`indexnow_rotate_key`: a new key for a host, and what stays as it is."""

import io
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from wagtail_indexnow.conf import conf
from wagtail_indexnow.ledger import channels
from wagtail_indexnow.models import Channel, HostKey
from wagtail_indexnow.submission import keys

pytestmark = pytest.mark.django_db(transaction=True)
HOST = "www.example.com"


def rotate(host: str = HOST, **options: Any) -> str:
    out = io.StringIO()
    call_command("indexnow_rotate_key", host, stdout=out, **options)
    return out.getvalue()


def test_b25_host_gets_a_new_key_and_keeps_serving_the_former(indexnow: Any, site: Any) -> None:
    former = keys.key_for(HOST)

    out = rotate("WWW.Example.com")

    new = keys.key_for(HOST)
    assert new != former
    row = HostKey.objects.get()
    assert (row.key, row.previous_key) == (new, former)
    assert new not in out
    assert f"{new[:4]}…" in out


def test_b13_new_key_ends_the_hold_of_the_refused_one(
    indexnow: Any, site: Any, clock_at: Any
) -> None:
    keys.key_for(HOST)
    channels.ensure([("engine", ""), ("engine", HOST)])
    until = keys.clock.now() + keys.PROOF_LASTS
    channels.pause_host("engine", HOST, reason="key_refused", until=until)

    rotate()

    row = Channel.objects.get(host=HOST)
    assert row.pause_reason == ""
    assert row.not_before == keys.clock.now() + conf.host_interval


def test_r67_revoke_ends_the_former_file_at_once(indexnow: Any, site: Any, clock_at: Any) -> None:
    """R67: for a key that leaked."""
    former = keys.key_for(HOST)

    assert "Would end" in rotate(revoke=True, dry_run=True)
    assert "former key" in rotate(revoke=True)

    row = HostKey.objects.get()
    assert (row.previous_key, row.previous_until) == (former, keys.clock.now())


def test_r67_revoke_ends_the_key_before_one_of_the_settings(
    indexnow: Any, site: Any, clock_at: Any
) -> None:
    """R67: such a key is rotated in the settings, and the former one ended by the command."""
    former = keys.key_for(HOST)
    indexnow.configure(KEYS={HOST: "configured-key"})
    keys.key_for(HOST)

    assert "Would make" not in rotate(revoke=True, dry_run=True)
    rotate(revoke=True)

    row = HostKey.objects.get()
    assert (row.key, row.previous_key) == ("configured-key", former)
    assert row.previous_until == keys.clock.now()


def test_dry_run_changes_nothing(indexnow: Any, site: Any) -> None:
    assert "the present one is none" in rotate(dry_run=True)
    assert not HostKey.objects.exists()

    former = keys.key_for(HOST)
    out = rotate(dry_run=True)

    assert f"the present one is {former[:4]}…" in out
    assert HostKey.objects.get().previous_key == ""


def test_host_known_only_by_its_key_can_be_rotated(indexnow: Any, site: Any) -> None:
    former = keys.key_for("shop.example.com")

    rotate("shop.example.com")

    assert keys.key_for("shop.example.com") != former


@pytest.mark.parametrize("dry_run", [True, False])
def test_key_of_the_settings_is_not_ours_to_change(indexnow: Any, site: Any, dry_run: bool) -> None:
    indexnow.configure(KEYS={"WWW.example.com": "abcdefgh"})

    with pytest.raises(CommandError, match=r"WAGTAIL_INDEXNOW\['KEYS'\]"):
        rotate(dry_run=dry_run)


@pytest.mark.parametrize("host", ["www.elsewhere.org", "not a host"])
def test_foreign_host_is_refused(indexnow: Any, site: Any, host: str) -> None:
    with pytest.raises(CommandError, match="not a host of this site"):
        rotate(host)
    assert not HostKey.objects.exists()
