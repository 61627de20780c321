"""The read-only page at ``/``: what the engine got, newest first. All values are escaped."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from example_site.engine.crawl import Sightings
from example_site.engine.keys import HostAndKey, KeyState
from example_site.engine.records import Incoming, Reply, RequestRecord
from example_site.engine.rules import RULES

REFRESH_S = 3
SHOWN_REQUESTS = 50
SHOWN_URLS = 10

STYLE_PATH = "/engine.css"
STYLE = Path(__file__).with_name("engine.css")

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<meta http-equiv="refresh" content="{refresh_s}">
<title>Local IndexNow engine</title>
<link rel="stylesheet" href="{style}">
</head>
<body>
<header>
<h1>Local IndexNow engine</h1>
<p>Profile <b>{profile}</b> · clock <b>{clock}</b> · <b>{requests}</b> requests ·
<b>{accepted}</b> accepted · <b>{urls}</b> URLs received</p>
</header>
<main>
<section>
<h2>Requests</h2>
{request_table}
</section>
<section>
<h2>Keys</h2>
{key_table}
</section>
</main>
<footer>Listens on this machine only and never talks to a real engine.
Reloads itself every {refresh_s} seconds.</footer>
</body>
</html>
"""

REQUEST_HEAD = "<tr><th>Time (UTC)</th><th>Host</th><th>Answer</th><th>URLs</th></tr>"
KEY_HEAD = "<tr><th>Host</th><th>Key</th><th>State</th><th>Key file</th></tr>"

# How the page colours what a crawl saw; the word itself is always shown as well.
TONES = {"200": "good", "301": "moved", "302": "moved", "308": "moved"}


def page_reply(incoming: Incoming, body: str) -> Reply:
    """Return the page, or its style sheet, with a policy that allows nothing else."""
    is_style = incoming.path == STYLE_PATH
    media_type = "text/css" if is_style else "text/html"
    headers = {
        "Content-Type": f"{media_type}; charset=utf-8",
        "Cache-Control": "no-store",
        "Content-Security-Policy": "default-src 'none'; style-src 'self'",
        "X-Content-Type-Options": "nosniff",
    }
    # A URL may hold half a surrogate pair, which has no UTF-8.
    content = STYLE.read_bytes() if is_style else body.encode("utf-8", "backslashreplace")
    return Reply(status=200, headers=headers, body=content)


def render_page(
    *,
    profile: str,
    now: float,
    requests: list[RequestRecord],
    keys: Mapping[HostAndKey, KeyState],
    sightings: Sightings,
) -> str:
    """Return the page as HTML.

    :param now: the engine's clock in seconds since 1970.
    """
    accepted = [record for record in requests if record.is_accepted]
    newest = requests[: -SHOWN_REQUESTS - 1 : -1]
    return PAGE.format(
        refresh_s=REFRESH_S,
        style=STYLE_PATH,
        profile=escape(profile),
        clock=_time(now, "%Y-%m-%d %H:%M:%S UTC"),
        requests=len(requests),
        accepted=len(accepted),
        urls=sum(len(record.urls) for record in accepted),
        request_table=_table(REQUEST_HEAD, (_request_row(r, sightings) for r in newest)),
        key_table=_table(KEY_HEAD, (_key_row(pair, state) for pair, state in keys.items())),
    )


def _table(head: str, rows: Iterable[str]) -> str:
    body = "\n".join(rows)
    if not body:
        return '<p class="empty">Nothing yet.</p>'
    return f"<table>\n<thead>{head}</thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def _request_row(record: RequestRecord, sightings: Sightings) -> str:
    return (
        f"<tr><td>{_time(record.at, '%H:%M:%S')}<br><small>{escape(record.method)}</small></td>"
        f"<td>{escape(record.host or 'unknown')}</td>"
        f"<td>{_answer(record)}</td>"
        f"<td>{_urls(record, sightings)}</td></tr>"
    )


def _answer(record: RequestRecord) -> str:
    status = str(record.status) if record.status else "dropped"
    tone = "good" if record.status == 200 else "wait" if record.status == 202 else "bad"
    lines = [_badge(status, tone)]
    if record.rule:
        title = escape(RULES.get(record.rule, ""))
        lines.append(f'<abbr title="{title}">{escape(record.rule)}</abbr>')
    lines += [f"<p>{escape(record.reason)}</p>"] if record.reason else []
    lines += [f'<p class="note">{escape(name)}</p>' for name in record.anomalies]
    return " ".join(lines)


def _urls(record: RequestRecord, sightings: Sightings) -> str:
    lines = [_url(record, url, sightings) for url in record.urls[:SHOWN_URLS]]
    more = len(record.urls) - SHOWN_URLS
    if more > 0:
        lines.append(f"<li>and {more} more</li>")
    return f"<ul>{''.join(lines)}</ul>"


def _url(record: RequestRecord, url: str, sightings: Sightings) -> str:
    seen = sightings.get((record.number, url), "")
    parts = [f"<code>{escape(url)}</code>"]
    parts += [_badge(seen, TONES.get(seen, "gone"))] if seen else []
    parts += [_badge("too soon", "wait")] if url in record.too_soon else []
    return f"<li>{' '.join(parts)}</li>"


def _key_row(pair: HostAndKey, state: KeyState) -> str:
    host, key = pair
    tone = {"verified": "good", "refused": "bad"}.get(state.status, "wait")
    path = state.key_location.replace(key, _masked(key))
    return (
        f"<tr><td>{escape(host)}</td><td><code>{escape(_masked(key))}</code></td>"
        f"<td>{_badge(state.status, tone)}<p>{escape(state.reason)}</p></td>"
        f"<td><code>{escape(path)}</code> <small>{escape(state.content_type)}</small></td></tr>"
    )


def _masked(key: str) -> str:
    return f"{key[:4]}…"


def _badge(text: str, tone: str) -> str:
    return f'<span class="badge {tone}">{escape(text)}</span>'


def _time(at: float, pattern: str) -> str:
    return datetime.fromtimestamp(at, UTC).strftime(pattern)
