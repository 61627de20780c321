"""Steering and reading the engine from another process, as JSON below ``/_engine/`` (M18).

=====================  ==========================================================
``GET  requests``      list of records, oldest first; ``?limit=20`` for the newest
``GET  urls``          list of received URLs; ``?host=www.example.com``
``GET  keys``          list of objects: host, key and the fields of ``KeyState``
``POST reset``         forget all; map and clock stay
``POST answers``       ``{"answers": [{"status": 429, …}], "host": …, "path": …}``
``POST clock``         ``{"now": 1767225600.0}``, ``{"now": null}`` for the real
                       time, or ``{"advance_s": 60}``
``POST map``           ``{"host": "www.example.com", "base_url": "http://127.0.0.1:8000"}``
=====================  ==========================================================

Every POST answers ``{"ok": true}``. A wrong request answers 400 and ``{"error": "…"}``.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from example_site.engine.bodies import JSON
from example_site.engine.records import Answer, Incoming, Reply, RequestRecord

if TYPE_CHECKING:
    from example_site.engine.engine import Engine

PREFIX = "/_engine/"

ANSWER_TYPES: dict[str, Any] = {
    "status": int,
    "headers": dict,
    "body": bytes,
    "delay_s": (int, float),
    "drop": bool,
    "truncate": bool,
    "redirect_to": (str, type(None)),
    "slow_drip_s": (int, float),
    "apply": bool,
}

Fields = Mapping[str, Any]
Action = Callable[["Engine", Fields], Any]


def serve_admin(engine: "Engine", incoming: Incoming) -> Reply:
    """Answer one admin request."""
    name = incoming.path.removeprefix(PREFIX).rstrip("/")
    actions = {"GET": READ, "POST": STEER}.get(incoming.method, {})
    if name not in actions:
        is_other_method = name in READ or name in STEER
        return json_reply(405 if is_other_method else 404, {"error": "There is no such action."})
    try:
        return json_reply(200, actions[name](engine, _arguments_of(incoming)))
    except (ValueError, TypeError, KeyError) as error:
        return json_reply(400, {"error": f"{type(error).__name__}: {error}"})


def json_reply(status: int, value: Any) -> Reply:
    """Return a JSON reply."""
    body = json.dumps(value).encode()
    return Reply(status=status, headers={"Content-Type": JSON}, body=body)


def _arguments_of(incoming: Incoming) -> Fields:
    if incoming.method == "GET":
        return dict(parse_qsl(incoming.query))
    parsed = json.loads(incoming.raw or b"{}")
    if not isinstance(parsed, dict):
        raise ValueError("the body is not a JSON object")
    return parsed


def _requests(engine: "Engine", arguments: Fields) -> list[dict[str, Any]]:
    limit = int(arguments.get("limit", 0))
    return [record_as_json(record) for record in engine.requests[-limit:]]


def record_as_json(record: RequestRecord) -> dict[str, Any]:
    """Return a record's fields; ``raw`` as text, with bytes that are no UTF-8 escaped."""
    return asdict(record) | {"raw": record.raw.decode("utf-8", "backslashreplace")}


def _urls(engine: "Engine", arguments: Fields) -> list[str]:
    return engine.urls(arguments.get("host"))


def _keys(engine: "Engine", _arguments: Fields) -> list[dict[str, Any]]:
    return [
        {"host": host, "key": key, **asdict(state)} for (host, key), state in engine.keys.items()
    ]


def _reset(engine: "Engine", _arguments: Fields) -> dict[str, bool]:
    engine.reset()
    return {"ok": True}


def _answers(engine: "Engine", arguments: Fields) -> dict[str, bool]:
    answers = [answer_from(item) for item in arguments["answers"]]
    engine.answer(*answers, host=arguments.get("host"), path=arguments.get("path"))
    return {"ok": True}


def answer_from(item: Fields) -> Answer:
    """Return the scripted answer an object describes; its ``body`` is text.

    :raises TypeError: on an unknown field or a value of another type.
    """
    answer = Answer(**{**item, "body": str(item.get("body", "")).encode()})
    for spec in fields(Answer):
        value = getattr(answer, spec.name)
        if not isinstance(value, ANSWER_TYPES[spec.name]):
            raise TypeError(f"{spec.name} cannot be {value!r}")
    return answer


def _clock(engine: "Engine", arguments: Fields) -> dict[str, bool]:
    if "advance_s" in arguments:
        engine.advance(float(arguments["advance_s"]))
    else:
        now = arguments["now"]
        engine.set_clock(time.time if now is None else float(now))
    return {"ok": True}


def _map(engine: "Engine", arguments: Fields) -> dict[str, bool]:
    engine.map_host(str(arguments["host"]), str(arguments["base_url"]))
    return {"ok": True}


READ: dict[str, Action] = {"requests": _requests, "urls": _urls, "keys": _keys}
STEER: dict[str, Action] = {"reset": _reset, "answers": _answers, "clock": _clock, "map": _map}
