from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import transaction

from example_site.content import loading, people
from example_site.content.models import HomePage


class Command(BaseCommand):
    help = (
        "Loads users, pages and Sites of the example site. Pages are made only if there are none: "
        "what a visitor changed or deleted stays so. The Sites get the port of this start."
    )

    @transaction.atomic
    def handle(self, *_args: Any, **_options: Any) -> None:
        sites = loading.read_sites()
        people.load_people()
        is_first_time = not HomePage.objects.exists()
        if is_first_time:
            loading.remove_welcome_page()
        count = loading.load_pages(sites) if is_first_time else 0
        loading.set_sites(sites, settings.PORT)  # type: ignore[misc]
        self.stdout.write(f"{count} pages loaded." if count else "The pages are already there.")
