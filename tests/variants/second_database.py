"""A site that keeps its sessions in another database than its pages."""

from typing import Any

from tests.settings import *  # noqa: F403
from tests.settings import DATABASES as _DATABASES

_SECOND = dict(_DATABASES["default"])
_SECOND["NAME"] = f"{_SECOND['NAME']}_second"
if _SECOND["ENGINE"].endswith("sqlite3"):
    _SECOND["TEST"] = {"NAME": ":memory:"}
DATABASES = {"default": _DATABASES["default"], "second": _SECOND}


class Router:
    """Knows of sessions only, and leaves everything else to where it was."""

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return "second" if model._meta.app_label == "sessions" else None

    db_for_write = db_for_read

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool:
        return (db == "second") == (app_label == "sessions")


DATABASE_ROUTERS = ["tests.variants.second_database.Router"]
