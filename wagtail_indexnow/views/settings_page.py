"""Settings → IndexNow: what works and what does not, the keys, and what is held."""

from collections.abc import Callable
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse, reverse_lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views import View
from django.views.generic import TemplateView
from wagtail.admin import messages
from wagtail.admin.views.generic import WagtailAdminTemplateMixin
from wagtail.models import Site

from .. import log_actions, permissions
from ..constants import KeyFile
from ..diagnostics import health
from ..exceptions import ConfigurationError
from ..ledger import channels
from ..models import Channel, HostKey
from ..submission import keys
from .bulk_actions import submit
from .columns import moment

SETTINGS = "wagtail_indexnow_admin:settings"


class ManagersOnly:
    """Keys and holds have a permission of their own."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        if not permissions.may_manage(request.user):
            raise PermissionDenied
        return super().dispatch(request, *args, **kwargs)  # type: ignore[misc]


class SettingsView(ManagersOnly, WagtailAdminTemplateMixin, TemplateView):
    """The checklist of `indexnow_check`, as the last look found it; below, what can be done."""

    template_name = "wagtail_indexnow/settings/settings.html"
    page_title = gettext_lazy("IndexNow")
    header_icon = "indexnow"

    def get_breadcrumbs_items(self) -> list[dict[str, Any]]:
        return [
            {"url": reverse_lazy("wagtailadmin_home"), "label": _("Home")},
            {"url": "", "label": self.get_page_title()},
        ]

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(**kwargs) | {
            "findings": health.findings(live=False),
            "keys": self._keys(),
            "holds": held(),
            "sites": Site.objects.select_related("root_page").order_by(
                "-is_default_site", "hostname", "pk"
            ),
        }

    def _keys(self) -> list[dict[str, Any]]:
        rows = {row.host: row for row in HostKey.objects.order_by("host")}
        revealed = self.request.GET.get("reveal")
        return [
            _key(host, rows.get(host), is_revealed=host == revealed)
            for host in sorted(keys.known_hosts())
        ]


class HostAction(ManagersOnly, View):
    """Something done with one host's key, and back to the settings."""

    http_method_names = ["post"]

    def post(self, request: HttpRequest, host: str) -> HttpResponse:
        if host not in keys.known_hosts():
            raise Http404
        self.act(host)
        return redirect(SETTINGS)

    def act(self, host: str) -> None:
        raise NotImplementedError


class VerifyKey(HostAction):
    """Fetch the key file as an engine would: the only request that the admin makes itself."""

    def act(self, host: str) -> None:
        proof = keys.prove(host, keys.known_hosts()[host], fresh=True)
        label = KeyFile(proof.result).label if proof.result in KeyFile.values else proof.result
        say: Callable[..., None] = messages.success if proof.is_ok else messages.warning
        say(self.request, " ".join(filter(None, (f"{host}:", str(label), proof.detail))))


class RotateKeyView(ManagersOnly, WagtailAdminTemplateMixin, TemplateView):
    """Ask before a host gets a new key."""

    template_name = "wagtail_indexnow/settings/confirm_rotate.html"
    page_title = gettext_lazy("Rotate key")
    header_icon = "key"

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        self.host = kwargs["host"]
        return super().dispatch(request, *args, **kwargs)

    def get_page_subtitle(self) -> str:
        return str(self.host)

    def get_breadcrumbs_items(self) -> list[dict[str, Any]]:
        return [
            {"url": reverse_lazy("wagtailadmin_home"), "label": _("Home")},
            {"url": reverse_lazy(SETTINGS), "label": _("IndexNow")},
            {"url": "", "label": self.get_page_title(), "sublabel": self.host},
        ]

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        if self.host not in keys.known_hosts():
            raise Http404
        return super().get_context_data(**kwargs) | {"host": self.host}

    def post(self, request: HttpRequest, host: str) -> HttpResponse:
        if host not in keys.known_hosts():
            raise Http404
        try:
            keys.rotate(host)
        except ConfigurationError as error:
            messages.error(request, str(error))
        else:
            log_actions.record(
                log_actions.ROTATE_KEY, HostKey.objects.filter(host=host), request.user
            )
            text = _("%(host)s has a new key. It comes into use once its file answers.")
            messages.success(request, text % {"host": host})
        return redirect(SETTINGS)


class ReleaseHold(ManagersOnly, View):
    """Let submissions go again before a hold's end."""

    http_method_names = ["post"]

    def post(self, request: HttpRequest, pk: int) -> HttpResponse:
        channel = get_object_or_404(Channel, pk=pk)
        channels.release(channel.endpoint, channel.host)
        log_actions.record(log_actions.RESUME, [channel], request.user)
        messages.success(request, _("The hold is released: URLs that waited are due now."))
        return redirect(SETTINGS)


class SubmitHome(ManagersOnly, View):
    """Send a site's home page, to see the whole way at work."""

    http_method_names = ["post"]

    def post(self, request: HttpRequest, pk: int) -> HttpResponse:
        site = get_object_or_404(Site.objects.select_related("root_page"), pk=pk)
        submit([site.root_page], request.user)
        text = _("The home page of %(site)s will be sent; its answer appears in the report.")
        messages.success(request, text % {"site": site})
        return redirect(reverse("wagtail_indexnow_admin:urls"))


def held() -> list[dict[str, Any]]:
    """Return channels and endpoints under a hold, also those of engines no longer configured."""
    rows = Channel.objects.exclude(pause_reason="").order_by("endpoint", "host")
    return [
        {"row": row, "since": moment(row.paused_at), "until": moment(row.not_before)}
        for row in rows
    ]


def _key(host: str, row: HostKey | None, *, is_revealed: bool) -> dict[str, Any]:
    key = row.key if row else ""
    is_ok = row is not None and row.check_result == KeyFile.OK and row.checked_key == row.key
    return {
        "host": host,
        "key": key if is_revealed else keys.mask(key),
        "is_revealed": is_revealed,
        "is_configured": keys.configured_key(host) is not None,
        "is_ok": is_ok,
        "result": KeyFile(row.check_result).label
        if row and row.check_result in KeyFile.values and row.checked_key == row.key
        else "",
        "checked": moment(row.checked_at) if row else "",
    }
