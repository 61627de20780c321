"""Submit pages by hand: one, a section, a Site, a type, or what was missed."""

import sys
from argparse import ArgumentParser
from datetime import datetime, time
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime
from wagtail.models import Site

from wagtail_indexnow.conf import conf
from wagtail_indexnow.management import progress, selections
from wagtail_indexnow.management.page_lookup import find_page
from wagtail_indexnow.management.selections import Selection
from wagtail_indexnow.pages.model import page_model

SHOWN_PAGES = 20


class Command(BaseCommand):
    help = (
        "Submit pages to IndexNow search engines, under the usual guards and at the usual pace. "
        "Engines want changes, not whole sites again and again."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("page", nargs="?", help="Id, URL or path of a page.")
        parser.add_argument(
            "--subtree", action="store_true", help="With the page, everything below it."
        )
        parser.add_argument("--site", metavar="HOST", help="All pages of a Site, by host name.")
        parser.add_argument("--type", metavar="APP.MODEL", help="All live pages of a type.")
        parser.add_argument(
            "--missed",
            action="store_true",
            help="Live pages that were published later than engines were last told of them.",
        )
        parser.add_argument("--since", help="With --missed: published since this date or time.")
        parser.add_argument(
            "--all", action="store_true", help="With --missed: however long ago published."
        )
        parser.add_argument("--dry-run", action="store_true", help="Only say what it would be.")
        parser.add_argument("--yes", action="store_true", help="Do not ask.")

    def handle(self, *args: Any, **options: Any) -> None:
        if not conf.enabled:
            raise CommandError("IndexNow is switched off here: see WAGTAIL_INDEXNOW['ENABLED'].")
        selection = self._selection(options)
        count = selection.covered().count()
        if options["dry_run"]:
            self._show(selection, count)
        elif count == 0:
            self.stdout.write("There is nothing to submit.")
        elif count == 1 or options["yes"] or _is_confirmed(count):
            self._submit(selection, count)
        else:
            self.stdout.write("Nothing was submitted.")

    def _selection(self, options: dict[str, Any]) -> Selection:
        chosen = [name for name in ("page", "site", "type", "missed") if options[name]]
        if len(chosen) != 1:
            raise CommandError("Say what to submit: a page, --site, --type or --missed.")
        if options["page"]:
            return selections.one_page(_page(options["page"]), subtree=options["subtree"])
        if options["site"]:
            return selections.sites(_sites(options["site"]))
        if options["type"]:
            return selections.of_type(_type(options["type"]))
        return selections.missed(since=_since(options))

    def _show(self, selection: Selection, count: int) -> None:
        self.stdout.write(f"Would submit {_pages(count)}.")
        for page in selection.covered().order_by("path")[:SHOWN_PAGES]:
            self.stdout.write(f"  {page.pk}: {page.title} ({page.url_path})")
        if count > SHOWN_PAGES:
            self.stdout.write(f"  … and {count - SHOWN_PAGES} more")

    def _submit(self, selection: Selection, count: int) -> None:
        submitted = selections.submit(
            selection, progress=lambda done: progress.draw(self.stderr, done, count)
        )
        self.stdout.write(f"Planned {_pages(submitted.planned)}. Workers tell the engines.")
        if submitted.failed:
            raise CommandError(f"{_pages(submitted.failed)} could not be planned: see the log.")


def _pages(count: int) -> str:
    return "1 page" if count == 1 else f"{count} pages"


def _page(text: str) -> Any:
    page = page_model().objects.filter(pk=find_page(text)).first()
    if page is None:
        raise CommandError(f"There is no page {text}.")
    return page


def _sites(host: str) -> list[Site]:
    name, _colon, port = host.lower().partition(":")
    found = Site.objects.filter(hostname__iexact=name)
    if port:
        found = found.filter(port=port)
    if not found:
        raise CommandError(f"There is no Site {host}.")
    return list(found)


def _type(label: str) -> Any:
    try:
        model = apps.get_model(label)
    except (LookupError, ValueError):
        model = None
    if model is None or not issubclass(model, page_model()):
        raise CommandError(f"There is no page type {label}.")
    return model


def _since(options: dict[str, Any]) -> datetime | None:
    if options["all"]:
        return None
    if options["since"]:
        return _moment(options["since"])
    start = selections.history_start()
    if start is None:
        raise CommandError("Nothing was ever submitted here: add --since DATE, or --all.")
    return start


def _moment(text: str) -> datetime:
    try:
        date = parse_date(text)
        moment = datetime.combine(date, time.min) if date else parse_datetime(text)
    except ValueError:
        moment = None
    if moment is None:
        raise CommandError(f"{text} is neither a date nor a time, such as 2026-12-01.")
    if not settings.USE_TZ:
        return timezone.make_naive(moment) if timezone.is_aware(moment) else moment
    return moment if timezone.is_aware(moment) else timezone.make_aware(moment)


def _is_confirmed(count: int) -> bool:
    if not sys.stdin.isatty():
        raise CommandError(f"This would submit {_pages(count)}: add --yes to agree to it.")
    return input(f"Submit {_pages(count)}? [y/N] ").strip().lower() in ("y", "yes")
