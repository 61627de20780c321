"""Settings → IndexNow: what works and what does not, the keys, and what is paused."""

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

from .. import clock, log_actions, permissions
from ..constants import KeyFile, Reason
from ..diagnostics import health
from ..diagnostics.formatting import engine_name, sentences
from ..exceptions import ConfigurationError
from ..ledger import channels
from ..models import Channel, HostKey
from ..submission import keys
from .bulk_actions import plan_for_user
from .columns import format_time
from .visits import settings_panel

SETTINGS = "wagtail_indexnow_admin:settings"


class ManagersOnly:
    """Keys and pauses have a permission of their own."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        if not permissions.may_manage(request.user):
            raise PermissionDenied
        return super().dispatch(request, *args, **kwargs)  # type: ignore[misc]


class SettingsView(ManagersOnly, WagtailAdminTemplateMixin, TemplateView):
    """The checklist of `indexnow_check` as it was found last, the keys and the pauses."""

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
            "findings": health.check_all(live=False),
            "keys": self._keys(),
            "pauses": pauses(),
            "visits": settings_panel(clock.now()),
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
    """An action on one host's key, which leads back to the settings."""

    http_method_names = ["post"]

    def post(self, request: HttpRequest, host: str) -> HttpResponse:
        if host not in keys.known_hosts():
            raise Http404
        self.act(host)
        return redirect(SETTINGS)

    def act(self, host: str) -> None:
        raise NotImplementedError


class VerifyKey(HostAction):
    """Fetch the key file as a search engine would: the only request that the admin makes."""

    def act(self, host: str) -> None:
        proof = keys.prove(host, keys.known_hosts()[host], fresh=True)
        show: Callable[..., None] = messages.success if proof.is_ok else messages.warning
        text = sentences(
            f"{host}: {KeyFile.label_of(proof.result)}",
            proof.detail,
            KeyFile.remedy_of(proof.result),
        )
        show(self.request, text)


class RotateKeyView(ManagersOnly, WagtailAdminTemplateMixin, TemplateView):
    """Ask for confirmation before a host gets a new key."""

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
            text = _("%(host)s has a new key. It is used once its key file is verified.")
            messages.success(request, text % {"host": host})
        return redirect(SETTINGS)


class Resume(ManagersOnly, View):
    """End a pause early."""

    http_method_names = ["post"]

    def post(self, request: HttpRequest, pk: int) -> HttpResponse:
        channel = get_object_or_404(Channel, pk=pk)
        channels.resume(channel.endpoint, channel.host)
        log_actions.record(log_actions.RESUME, [channel], request.user)
        messages.success(request, _("Submissions have been resumed."))
        return redirect(SETTINGS)


class SubmitHome(ManagersOnly, View):
    """Submit a site's home page, to see that everything works."""

    http_method_names = ["post"]

    def post(self, request: HttpRequest, pk: int) -> HttpResponse:
        site = get_object_or_404(Site.objects.select_related("root_page"), pk=pk)
        plan_for_user([site.root_page], request.user)
        text = _("The home page of %(site)s has been queued for submission.")
        messages.success(request, text % {"site": site})
        return redirect(reverse("wagtail_indexnow_admin:urls"))


def pauses() -> list[dict[str, Any]]:
    """Return paused channels and endpoints, also those that are no longer configured."""
    rows = Channel.objects.exclude(pause_reason="").order_by("endpoint", "host")
    return [
        {
            "row": row,
            "engine": engine_name(row.endpoint),
            "reason": Reason.label_of(row.pause_reason),
            "since": format_time(row.paused_at),
            "until": format_time(row.not_before),
        }
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
        "result": KeyFile.label_of(row.check_result) if row and row.checked_key == row.key else "",
        "checked": format_time(row.checked_at) if row else "",
    }
