"""Response bodies in the style of each engine (M14)."""

import json
from typing import Any

from example_site.engine.profiles import BodyStyle
from example_site.engine.records import Verdict

JSON = "application/json; charset=utf-8"
TEXT = "text/plain; charset=utf-8"


def body_for(style: BodyStyle, verdict: Verdict) -> tuple[str, bytes]:
    """Return content type and body; both empty where the engine sends none."""
    if style == "bing":
        return _bing(verdict)
    if style == "yandex":
        return _yandex(verdict)
    if style == "text":
        # A URL may hold half a surrogate pair, which has no UTF-8.
        return TEXT, (verdict.reason or "OK").encode("utf-8", "backslashreplace")
    return "", b""


def _bing(verdict: Verdict) -> tuple[str, bytes]:
    if verdict.is_accepted:
        return "", b""
    details = None
    if verdict.target:
        details = [{"target": verdict.target, "message": verdict.reason}]
    return _json({"errorCode": verdict.error_code, "message": verdict.reason, "details": details})


def _yandex(verdict: Verdict) -> tuple[str, bytes]:
    if verdict.is_accepted:
        return _json({"success": True})
    # Unproven: nobody has shown a refusal's body. Clients must not depend on this shape.
    return _json({"success": False, "message": verdict.reason})


def _json(value: dict[str, Any]) -> tuple[str, bytes]:
    return JSON, json.dumps(value).encode()
