"""The demo's users: whoever may log in, and what they may do."""

from typing import NamedTuple

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission


class Person(NamedTuple):
    """A login whose password is its name."""

    name: str
    group: str | None
    may: str


PEOPLE = (
    Person("admin", None, "may do everything"),
    Person("moderator", "Moderators", "may publish"),
    Person("editor", "Editors", "may write drafts"),
)


def load_people() -> None:
    """Make the users that are missing, and let both groups translate pages."""
    user_model = get_user_model()
    for person in PEOPLE:
        if user_model.objects.filter(username=person.name).exists():
            continue
        make = user_model.objects
        create = make.create_user if person.group else make.create_superuser
        user = create(person.name, f"{person.name}@example.com", person.name)
        if person.group:
            user.groups.add(Group.objects.get(name=person.group))
    translate = Permission.objects.get(
        content_type__app_label="simple_translation", codename="submit_translation"
    )
    for group in Group.objects.filter(name__in=["Editors", "Moderators"]):
        group.permissions.add(translate)
