"""What a person can do about each kind of trouble, in one or two sentences."""

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from ..constants import KeyFile, Reason

_SERVE_IT = _(
    "Include wagtail_indexnow.urls at the root of ROOT_URLCONF, before Wagtail's URLs and outside "
    "i18n_patterns(), and let every proxy pass the request on."
)
_ALLOW_IT = _(
    "Let requests for the key file pass: engines fetch it without cookies or scripts. If this is a "
    "copy of the site, set WAGTAIL_INDEXNOW['ENABLED'] to False here instead."
)
_REACH_IT = _(
    "Check the host's name and firewall. Where only workers cannot reach the public name, set "
    "WAGTAIL_INDEXNOW['CONNECT_TO']."
)
_CLEAN_IT = _("Save the file without anything around the key, or let Django serve it.")
_COPY = _(
    "If this is a copy of the site, set WAGTAIL_INDEXNOW['ENABLED'] to False here. If it is the "
    "same site, give all its servers the same SECRET_KEY, and name a former one in "
    "SECRET_KEY_FALLBACKS."
)
_NAME_IT = _(
    "If this is a copy of the site, set WAGTAIL_INDEXNOW['ENABLED'] to False here. If it is the "
    "public site, name the host in WAGTAIL_INDEXNOW['HOSTS'] or in ALLOWED_HOSTS."
)
_NOTHING = _("Nothing to do: it is tried again by itself.")
_SLOW_DOWN = _(
    "Nothing to do. If it happens again and again, lower WAGTAIL_INDEXNOW['RATE_LIMIT']."
)
_SEE_ANSWER = _("Read the engine's answer in Reports → IndexNow.")

KEY_FILE_FIXES: dict[str, Promise] = {
    KeyFile.NOT_FOUND: _SERVE_IT,
    KeyFile.HTML: _SERVE_IT,
    KeyFile.OTHER_BODY: _SERVE_IT,
    KeyFile.REDIRECT: _(
        "Let the address answer by itself, without a redirect to a slash, a language, https or "
        "another host. Where TLS ends before Django, set WAGTAIL_INDEXNOW['SCHEME'] to \"https\"."
    ),
    KeyFile.BOT_WALL: _ALLOW_IT,
    KeyFile.FORBIDDEN: _ALLOW_IT,
    KeyFile.BOM: _CLEAN_IT,
    KeyFile.TRAILING_NEWLINE: _CLEAN_IT,
    KeyFile.TIMEOUT: _REACH_IT,
    KeyFile.UNREACHABLE: _REACH_IT,
    KeyFile.SERVER_FAULT: _("Look into the server's own log for this request."),
    KeyFile.FOREIGN_HOST: _NAME_IT,
    KeyFile.PRIVATE_HOST: _(
        "Give the site its public name in Settings → Sites, or set CONNECT_TO if this server "
        "reaches that name only inside its own network. If this is a copy of the site, set "
        "WAGTAIL_INDEXNOW['ENABLED'] to False here instead."
    ),
    KeyFile.OTHER_INSTALLATION: _COPY,
    KeyFile.UNSIGNED: _(
        "Let Django serve the file, or put the key of the static file into "
        "WAGTAIL_INDEXNOW['KEYS']."
    ),
}

REASON_FIXES: dict[str, Promise] = {
    Reason.FOREIGN_HOST: _NAME_IT,
    Reason.KEY_FILE: _("Mend what manage.py indexnow_check says of the key file."),
    Reason.OTHER_INSTALLATION: _COPY,
    Reason.KEY_UNVERIFIED: _NOTHING,
    Reason.KEY_REFUSED: _("Make a new key: manage.py indexnow_rotate_key %(host)s"),
    Reason.BAD_KEY: _SEE_ANSWER,
    Reason.BAD_REQUEST: _SEE_ANSWER,
    Reason.UNPROCESSABLE: _SEE_ANSWER,
    Reason.ENDPOINT_WRONG: _("Correct the address in WAGTAIL_INDEXNOW['ENDPOINTS']."),
    Reason.RATE_LIMITED: _SLOW_DOWN,
    Reason.TOO_LARGE: _NOTHING,
    Reason.SERVER_ERROR: _NOTHING,
    Reason.NO_RESPONSE: _NOTHING,
}


def for_key_file(result: str) -> str:
    """Return what to do about a `KeyFile` value; empty if nothing."""
    return str(KEY_FILE_FIXES.get(result, ""))


def for_reason(reason: str, *, host: str = "") -> str:
    """Return what to do about a hold or an answer; empty if nothing is known."""
    fix = str(REASON_FIXES.get(reason, ""))
    return fix % {"host": host} if "%(" in fix else fix


def is_patience(fix: str) -> bool:
    """Say whether an advice is to wait: what it is about passes by itself."""
    return fix in (str(_NOTHING), str(_SLOW_DOWN))
