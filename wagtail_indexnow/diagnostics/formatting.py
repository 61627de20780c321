"""Times, names and sentences as people read them."""

from datetime import datetime
from urllib.parse import urlsplit

from django.utils import timezone
from django.utils.formats import date_format

from ..conf import conf
from ..constants import Text

#: Host of a known endpoint → the search engine's name.
_ENGINES = {
    "api.indexnow.org": "IndexNow",
    "www.bing.com": "Bing",
    "yandex.com": "Yandex",
    "search.seznam.cz": "Seznam",
    "searchadvisor.naver.com": "Naver",
    "indexnow.yep.com": "Yep",
    "indexnow.amazonbot.amazon": "Amazon",
}


def format_time(at: datetime) -> str:
    """Return a time in the reader's language and time zone, fit to end a sentence."""
    local = timezone.localtime(at) if timezone.is_aware(at) else at
    return f"{date_format(local, 'DATE_FORMAT')} {local:%H:%M}"


def engine_name(endpoint: str) -> str:
    """Return the name of the search engine at an endpoint, or the endpoint's key in `ENDPOINTS`."""
    host = urlsplit(conf.endpoints.get(endpoint, "")).hostname
    return _ENGINES.get(host or "", endpoint)


def sentences(*texts: Text) -> str:
    """Join texts into sentences; labels come without a full stop."""
    parts = (str(text) for text in texts if text)
    return " ".join(part if part.endswith((".", "!", "?")) else f"{part}." for part in parts)
