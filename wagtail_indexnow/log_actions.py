"""What people did by hand, in the history of the page: Wagtail's log actions."""

from collections.abc import Iterable
from typing import Any

from django.utils.translation import gettext_lazy as _
from wagtail.log_actions import log

SUBMIT = "wagtail_indexnow.submit"
RESUBMIT = "wagtail_indexnow.resubmit"
CANCEL = "wagtail_indexnow.cancel"
ROTATE_KEY = "wagtail_indexnow.rotate_key"
RESUME = "wagtail_indexnow.resume"

#: Action → label, message: how Wagtail shows it.
ACTIONS = {
    SUBMIT: (_("Submit to IndexNow"), _("Submitted to IndexNow by hand")),
    RESUBMIT: (_("Resubmit to IndexNow"), _("URLs sent to IndexNow again by hand")),
    CANCEL: (_("Cancel IndexNow announcement"), _("Planned IndexNow announcement cancelled")),
    ROTATE_KEY: (_("Rotate IndexNow key"), _("IndexNow key rotated")),
    RESUME: (_("Release IndexNow hold"), _("IndexNow hold released")),
}


def record(action: str, instances: Iterable[Any], user: Any) -> None:
    """Write what somebody did into the history of each page, key or channel."""
    for instance in instances:
        log(instance=instance, action=action, user=user)
