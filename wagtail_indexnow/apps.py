"""App config. Imports nothing of ours at module level: actors must find the site's broker."""

from django.apps import AppConfig, apps
from django.core.signals import request_started
from django.utils.translation import gettext_lazy as _


class WagtailIndexNowConfig(AppConfig):
    name = "wagtail_indexnow"
    label = "wagtail_indexnow"
    verbose_name = _("IndexNow")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from . import checks, signal_handlers  # noqa: F401 - importing registers the checks
        from .submission import served_keys

        signal_handlers.connect()
        request_started.connect(served_keys.on_request_started, dispatch_uid=self.label)
        if apps.is_installed("django_dramatiq"):
            _add_relay()


def _add_relay() -> None:
    """Let the site's workers run the relay: they load the broker, and so this middleware."""
    import dramatiq

    from .relay.worker_thread import RelayMiddleware

    broker = dramatiq.get_broker()
    if not any(isinstance(middleware, RelayMiddleware) for middleware in broker.middleware):
        broker.add_middleware(RelayMiddleware())
