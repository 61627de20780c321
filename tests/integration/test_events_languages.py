"""Translations and locale trees: the right prefix from every process, and who is told along."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

import pytest
from django.apps import apps
from django.conf.urls.i18n import i18n_patterns
from django.core.management import call_command
from django.urls import include, path
from django.utils import timezone, translation
from wagtail import urls as wagtail_urls
from wagtail.admin import urls as wagtailadmin_urls
from wagtail.models import Locale, Page

from tests.factories import make_page, publish
from wagtail_indexnow.models import Intent, Submission, TrackedUrl

pytestmark = pytest.mark.django_db(transaction=True)
HOST = "https://www.example.com"
EN, FR, DE = (f"{HOST}/{code}/news/" for code in ("en", "fr", "de"))
T1 = datetime(2026, 12, 1, 18, 0, tzinfo=UTC)


@pytest.fixture
def homes(site: Any, clock_at: Any, indexnow: Any) -> dict[str, Any]:
    """Language → the live home page of its tree."""
    home = publish(site.root_page)
    homes = {"en": home}
    for code in ("fr", "de"):
        locale = Locale.objects.create(language_code=code)
        homes[code] = publish(home.copy_for_translation(locale))
    indexnow.settle()
    indexnow.told()
    later(indexnow)
    return homes


@pytest.fixture
def news(homes: dict[str, Any], indexnow: Any) -> Any:
    """An English page with a live French translation, both told."""
    page = publish(make_page(homes["en"], "news"))
    translate(page, "fr")
    indexnow.settle(minutes=60)
    indexnow.told()
    later(indexnow)
    return page


def later(indexnow: Any) -> None:
    indexnow.travel_to(timezone.now() + timedelta(hours=1))


def translate(page: Any, code: str, *, live: bool = True) -> Any:
    draft = page.copy_for_translation(Locale.objects.get(language_code=code))
    draft.slug = page.slug
    return publish(draft) if live else draft


def named(slug: str, code: str) -> Any:
    return Page.objects.get(slug=slug, locale__language_code=code).specific


def changes() -> dict[str, str]:
    return dict(TrackedUrl.objects.values_list("url", "change"))


@contextmanager
def urlconf(settings: Any, name: str, *patterns: Any) -> Iterator[None]:
    module = ModuleType(name)
    module.urlpatterns = [path("admin/", include(wagtailadmin_urls)), *patterns]  # type: ignore[attr-defined]
    sys.modules[name] = module
    settings.ROOT_URLCONF = name
    try:
        yield
    finally:
        settings.ROOT_URLCONF = "tests.urls"
        del sys.modules[name]


def test_b20_page_in_two_of_three_languages_is_told_as_two_urls(
    indexnow: Any, homes: dict[str, Any]
) -> None:
    translate(publish(make_page(homes["en"], "news")), "fr")

    assert indexnow.settled() == [EN, FR]


def test_w23_prefix_is_the_pages_own_whatever_language_is_active(
    indexnow: Any, homes: dict[str, Any]
) -> None:
    page = make_page(homes["fr"], "news")
    with translation.override("de"):
        publish(page)
        assert indexnow.settled() == [FR]
        page.refresh_from_db()
        page.delete()
        assert indexnow.settled() == [FR]


def test_w23_editor_with_another_admin_language_changes_no_url(
    indexnow: Any, editor: Any, homes: dict[str, Any]
) -> None:
    from wagtail.users.models import UserProfile

    UserProfile.objects.create(user=editor.user, preferred_language="ar")
    page = make_page(homes["fr"], "news")
    editor.publish(page)
    assert indexnow.settled() == [FR]
    later(indexnow)
    editor.publish(page, slug="presse")

    assert indexnow.settled() == [FR, f"{HOST}/fr/presse/"]
    assert changes()[FR] == "removed"


def test_w24_without_wagtails_i18n_the_default_prefix_is_used(
    indexnow: Any, homes: dict[str, Any], settings: Any
) -> None:
    settings.WAGTAIL_I18N_ENABLED = False
    with translation.override("de"):
        publish(make_page(homes["en"], "news"))
        assert indexnow.settled() == [EN]


def test_language_variant_as_language_code_gets_the_prefix_that_is_served(
    indexnow: Any, homes: dict[str, Any], settings: Any
) -> None:
    settings.LANGUAGE_CODE = "en-us"
    publish(make_page(homes["en"], "news"))
    publish(make_page(homes["fr"], "news"))

    assert indexnow.settled() == [EN, FR]


@pytest.mark.parametrize("code", ["en", "en-us"])
def test_default_language_without_prefix(
    code: str, indexnow: Any, homes: dict[str, Any], settings: Any
) -> None:
    settings.LANGUAGE_CODE = code
    patterns = i18n_patterns(path("", include(wagtail_urls)), prefix_default_language=False)
    with urlconf(settings, "tests.urls_unprefixed_default", *patterns):
        publish(make_page(homes["en"], "news"))
        publish(make_page(homes["fr"], "news"))
        with translation.override("fr"):
            assert indexnow.settled() == [FR, f"{HOST}/news/"]


def test_without_language_prefixes(indexnow: Any, homes: dict[str, Any], settings: Any) -> None:
    with urlconf(settings, "tests.urls_plain", path("", include(wagtail_urls))):
        publish(make_page(homes["en"], "news"))
        assert indexnow.settled() == [f"{HOST}/news/"]


def test_b17_page_that_is_not_served_here_is_skipped(
    indexnow: Any, homes: dict[str, Any], settings: Any
) -> None:
    """A headless site that has not said where its pages are."""
    with urlconf(settings, "tests.urls_headless"):
        publish(make_page(homes["en"], "news"))
        assert indexnow.settled() == []
    assert Intent.objects.latest("pk").reason == "no_url"


def test_script_name_of_the_settings_holds_in_every_thread(
    indexnow: Any, homes: dict[str, Any], settings: Any
) -> None:
    settings.FORCE_SCRIPT_NAME = "/app"
    publish(make_page(homes["en"], "news"))

    assert indexnow.settled() == [f"{HOST}/app/en/news/"]


@pytest.mark.parametrize(
    ("mode", "expected"), [("url_changes", [DE, EN, FR]), ("always", [DE, EN, FR]), ("never", [DE])]
)
def test_new_translation_tells_the_others_by_setting(
    mode: str, expected: list[str], indexnow: Any, news: Any
) -> None:
    indexnow.configure(TRANSLATIONS=mode)
    translate(news, "de")

    assert indexnow.settled() == expected


@pytest.mark.parametrize(
    ("mode", "expected"), [("url_changes", [EN]), ("always", [EN, FR]), ("never", [EN])]
)
def test_ordinary_update_tells_translations_by_setting(
    mode: str, expected: list[str], indexnow: Any, news: Any
) -> None:
    indexnow.configure(TRANSLATIONS=mode)
    publish(news)

    assert indexnow.settled() == expected


def test_ordinary_update_of_an_untracked_page_tells_it_alone(indexnow: Any, news: Any) -> None:
    TrackedUrl.objects.all().delete()
    Intent.objects.all().delete()
    publish(news)

    assert indexnow.settled() == [EN]


@pytest.mark.parametrize("mode", ["url_changes", "never"])
@pytest.mark.parametrize("change", ["unpublish", "delete", "restrict", "move", "rename"])
def test_url_changes_tell_translations(
    change: str, mode: str, indexnow: Any, editor: Any, news: Any, homes: dict[str, Any]
) -> None:
    indexnow.configure(TRANSLATIONS=mode)
    shelf = make_page(homes["en"], "shelf")
    if change == "move":
        editor.move(news, shelf)
    elif change == "rename":
        editor.publish(news, slug="fresh")
    else:
        getattr(editor, change)(news)

    told = indexnow.settled()
    moved = {"move": [f"{HOST}/en/shelf/news/"], "rename": [f"{HOST}/en/fresh/"]}.get(change, [])
    assert told == sorted([EN, *moved, *([FR] if mode == "url_changes" else [])])
    assert changes()[EN] == "removed"
    assert changes()[FR] != "removed"


@pytest.mark.parametrize("is_new", [True, False], ids=["new", "update"])
def test_go_live_tells_translations_only_of_a_new_page(
    is_new: bool, indexnow: Any, news: Any
) -> None:
    page = translate(news, "de", live=False) if is_new else news
    page = page.get_latest_revision_as_object()
    page.go_live_at = T1
    page.save_revision().publish()
    indexnow.travel_to(T1 + timedelta(seconds=20))
    call_command("publish_scheduled")

    assert indexnow.settled() == ([DE, EN, FR] if is_new else [EN])


def test_private_and_draft_translations_are_not_told_along(
    indexnow: Any, editor: Any, news: Any
) -> None:
    translate(news, "de", live=False)
    editor.restrict(named("news", "fr"))
    indexnow.settle()
    indexnow.told()
    later(indexnow)
    editor.unpublish(news)

    assert indexnow.settled() == [EN]


def test_translations_of_a_moved_section_are_told_once_each(
    indexnow: Any, news: Any, homes: dict[str, Any]
) -> None:
    for slug in ("one", "two"):
        translate(publish(make_page(news, slug)), "fr")
    indexnow.settle(minutes=60)
    indexnow.told()
    later(indexnow)
    shelf = make_page(homes["en"], "shelf")
    Page.objects.get(pk=news.pk).move(shelf, pos="last-child")

    told = indexnow.settled()
    assert told == sorted(
        f"{base}/{page}"
        for base in (f"{HOST}/en/news", f"{HOST}/en/shelf/news", f"{HOST}/fr/news")
        for page in ("", "one/", "two/")
    )


def test_unpublished_home_of_a_language_is_told(
    indexnow: Any, editor: Any, homes: dict[str, Any]
) -> None:
    editor.unpublish(homes["de"])

    assert f"{HOST}/de/" in indexnow.settled()
    assert changes()[f"{HOST}/de/"] == "removed"


def test_published_by_simple_translation_is_told(indexnow: Any, editor: Any, news: Any) -> None:
    from django.urls import reverse

    address = reverse("simple_translation:submit_page_translation", args=(news.pk,))
    de = Locale.objects.get(language_code="de")
    editor.post(address, {"locales": [de.pk]})
    assert indexnow.settled() == []
    page = news.get_translation(de)
    editor.publish(page)

    assert indexnow.settled() == sorted([page.get_full_url(), EN, FR])


def test_synchronised_trees_make_aliases_and_cascade(
    indexnow: Any, editor: Any, homes: dict[str, Any], settings: Any
) -> None:
    settings.WAGTAILSIMPLETRANSLATION_SYNC_PAGE_TREE = True
    indexnow.configure(ALIASES=True)
    page = editor.create(homes["en"], "news", publish=True)
    aliases = list(Page.objects.filter(alias_of=page).values_list("slug", flat=True))
    assert len(aliases) == 2
    urls = sorted(
        row.get_full_url() for row in Page.objects.filter(translation_key=page.translation_key)
    )
    told = indexnow.settled()
    assert sorted(set(told)) == urls
    later(indexnow)
    editor.delete(page)

    told = indexnow.settled()
    assert told == urls
    assert {changes()[url] for url in urls} == {"removed"}


def test_synchronised_trees_tell_no_alias_by_default(
    indexnow: Any, editor: Any, homes: dict[str, Any], settings: Any
) -> None:
    settings.WAGTAILSIMPLETRANSLATION_SYNC_PAGE_TREE = True
    page = editor.create(homes["en"], "news", publish=True)
    assert indexnow.settled() == [EN]
    later(indexnow)
    editor.unpublish(page)

    assert indexnow.settled() == [EN]


def test_synchronised_move_tells_each_url_once(
    indexnow: Any, editor: Any, news: Any, homes: dict[str, Any], settings: Any
) -> None:
    settings.WAGTAILSIMPLETRANSLATION_SYNC_PAGE_TREE = True
    shelf = publish(make_page(homes["en"], "shelf"))
    translate(shelf, "fr")
    indexnow.settle()
    indexnow.told()
    later(indexnow)
    editor.move(news, shelf)

    assert indexnow.settled() == [
        EN,
        f"{HOST}/en/shelf/news/",
        FR,
        f"{HOST}/fr/shelf/news/",
    ]


@pytest.mark.skipif(not apps.is_installed("wagtail_localize"), reason="needs wagtail-localize")
class TestLocalize:
    @pytest.fixture
    def german(self, news: Any, editor: Any) -> Any:
        """The translation that wagtail-localize made of a live page."""
        from wagtail_localize.operations import translate_object

        de = Locale.objects.get(language_code="de")
        translate_object(news, [de], user=editor.user)
        from wagtail_localize.models import Translation

        return Translation.objects.get(target_locale=de)

    def test_w21_submitted_live_page_is_told_at_once(self, indexnow: Any, german: Any) -> None:
        page = german.get_target_instance()

        assert page.live
        assert indexnow.settled() == sorted([page.get_full_url(), EN, FR])

    def test_w21_updated_translation_is_told(self, indexnow: Any, german: Any) -> None:
        url = german.get_target_instance().get_full_url()
        indexnow.settled()
        later(indexnow)
        german.save_target(publish=True)

        assert indexnow.settled() == [url]

    def test_live_row_written_without_publishing_tells_a_changed_slug(
        self, indexnow: Any, german: Any
    ) -> None:
        page = german.get_target_instance()
        url = page.get_full_url()
        indexnow.settled()
        later(indexnow)
        page.slug = "nachrichten"
        page.save()

        assert set(indexnow.settled()) >= {url, f"{HOST}/de/nachrichten/"}

    def test_synchronised_locale_tells_no_alias_by_default(self, indexnow: Any, news: Any) -> None:
        from wagtail_localize.models import LocaleSynchronization

        LocaleSynchronization.objects.create(
            locale=Locale.objects.get(language_code="de"),
            sync_from=Locale.objects.get(language_code="en"),
        )
        assert Page.objects.filter(alias_of=news).exists()
        assert indexnow.settled() == []


def test_translations_travel_in_one_post(indexnow: Any, news: Any) -> None:
    before = Submission.objects.count()
    translate(news, "de")
    indexnow.settle()

    assert Submission.objects.count() == before + 1
