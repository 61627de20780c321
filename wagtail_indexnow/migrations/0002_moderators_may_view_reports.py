"""Let Wagtail's group "Moderators" see both reports, where a site has kept that group.

Django creates permissions after all migrations have run, so the two are created here. What a
site changes afterwards stays: this runs once.
"""

from typing import Any

from django.db import migrations

GROUP = "Moderators"
REPORTS = {"trackedurl": "Can view IndexNow URL", "intent": "Can view IndexNow announcement"}


def grant(apps: Any, schema_editor: Any) -> None:
    alias = schema_editor.connection.alias
    group = apps.get_model("auth", "Group").objects.using(alias).filter(name=GROUP).first()
    if group is None:
        return
    content_type = apps.get_model("contenttypes", "ContentType")
    permission = apps.get_model("auth", "Permission")
    for model, name in REPORTS.items():
        type_, _made = content_type.objects.using(alias).get_or_create(
            app_label="wagtail_indexnow", model=model
        )
        view, _made = permission.objects.using(alias).get_or_create(
            content_type=type_, codename=f"view_{model}", defaults={"name": name}
        )
        group.permissions.add(view)


class Migration(migrations.Migration):
    dependencies = [
        ("wagtail_indexnow", "0001_initial"),
        ("auth", "0011_update_proxy_permissions"),
        ("contenttypes", "0002_remove_content_type_name"),
        # After the one that creates the group.
        ("wagtailcore", "0017_change_edit_page_permission_description"),
    ]

    operations = [migrations.RunPython(grant, migrations.RunPython.noop)]
