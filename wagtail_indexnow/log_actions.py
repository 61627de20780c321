"""What users did, in the history of the page: Wagtail's log actions."""

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
    SUBMIT: (_("Submit to IndexNow"), _("Submitted to IndexNow")),
    RESUBMIT: (_("Resubmit to IndexNow"), _("Resubmitted to IndexNow")),
    CANCEL: (_("Cancel IndexNow event"), _("IndexNow event cancelled")),
    ROTATE_KEY: (_("Rotate IndexNow key"), _("IndexNow key rotated")),
    RESUME: (_("Resume IndexNow submissions"), _("IndexNow submissions resumed")),
}


def record(action: str, instances: Iterable[Any], user: Any) -> None:
    """Log what a user did in the history of each page, key or channel."""
    for instance in instances:
        log(instance=instance, action=action, user=user)
