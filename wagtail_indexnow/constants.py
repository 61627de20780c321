"""Names and limits that several modules share. Names are the contract: they are stored."""

from datetime import timedelta
from enum import Flag, auto
from typing import Self

from django.db.models import TextChoices
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

APP_LABEL = "wagtail_indexnow"
ANNOUNCE_ACTOR = "wagtail_indexnow.announce"
SUBMIT_ACTOR = "wagtail_indexnow.submit"

Text = str | Promise


class Kind(TextChoices):
    """What triggers a check of a page."""

    GO_LIVE = "go_live", _("Scheduled to go live")
    PUBLISH = "publish", _("Published")
    REMOVE = "remove", _("Unpublished or deleted")
    MOVE = "move", _("Moved or renamed")
    VISIBILITY = "visibility", _("Visibility changed")
    MANUAL = "manual", _("Submitted manually")
    AUDIT = "audit", _("Audit")


class IntentState(TextChoices):
    PLANNED = "planned", _("Planned")
    ANNOUNCED = "announced", _("Processed")
    SKIPPED = "skipped", _("Skipped")
    CANCELLED = "cancelled", _("Cancelled")
    FAILED = "failed", _("Failed")


class UrlState(TextChoices):
    PENDING = "pending", _("Pending")
    ACCEPTED = "accepted", _("Accepted")
    REJECTED = "rejected", _("Rejected")
    FAILED = "failed", _("Failed")
    SKIPPED = "skipped", _("Skipped")


class SubmissionState(TextChoices):
    """What came of one POST; in flight and kept for another attempt are both pending."""

    PENDING = "pending", _("Pending")
    ACCEPTED = "accepted", _("Accepted")
    REJECTED = "rejected", _("Rejected")
    SKIPPED = "skipped", _("Skipped")


class Change(TextChoices):
    """What happened to a URL since its last submission."""

    ADDED = "added", _("Added")
    UPDATED = "updated", _("Updated")
    REMOVED = "removed", _("Removed")


class Use(Flag):
    """Where a code may stand; `L` is a pasted line, or a URL given to `submit_urls()`."""

    EVENT = auto()
    URL = auto()
    SUBMISSION = auto()
    PAUSE = auto()
    KEY_FILE = auto()
    LINE = auto()


class ExplainedChoices(TextChoices):
    """Choices that carry everything there is to say about them.

    Each is declared as code, label, meaning, remedy and use. An empty remedy: nothing to do.
    """

    meaning: Text
    remedy: Text
    use: Use
    _title: Text

    # The use stands last since Django takes a text in that place for the label. The defaults are
    # for the type checker alone: `Reason(code)` finds a member and makes none.
    def __new__(
        cls,
        code: str,
        label: Text = "",
        meaning: Text = "",
        remedy: Text = "",
        use: Use = Use.EVENT,
    ) -> Self:
        choice = str.__new__(cls, code)
        choice._value_ = code
        choice._title, choice.meaning, choice.remedy, choice.use = label, meaning, remedy, use
        return choice

    @property
    def label(self) -> Text:
        return self._title

    @classmethod
    def of(cls, code: str) -> Self | None:
        """Return the choice of a code, or `None` for one that another version wrote."""
        return cls(code) if code in cls.values else None

    @classmethod
    def label_of(cls, code: str) -> str:
        """Return the label of a code, or the code itself if it is not known here."""
        choice = cls.of(code)
        return str(choice.label) if choice else code

    @classmethod
    def remedy_of(cls, code: str) -> str:
        """Return what to do about a code; empty if there is nothing, or it is not known here."""
        choice = cls.of(code)
        return str(choice.remedy) if choice else ""

    @classmethod
    def choices_for(cls, use: Use) -> list[tuple[str, Text]]:
        """Return the choices that may stand in a place, for its filter."""
        return [(choice.value, choice.label) for choice in cls if choice.use & use]


_COPY = _(
    "If this is a copy of the site, set WAGTAIL_INDEXNOW['ENABLED'] to False here. Otherwise give "
    "all servers of the site the same SECRET_KEY, and list a former one in SECRET_KEY_FALLBACKS."
)
_SERVE_HOST = _(
    "If this server serves the host, add it to ALLOWED_HOSTS or to WAGTAIL_INDEXNOW['HOSTS']. If "
    "this is a copy of the site, set WAGTAIL_INDEXNOW['ENABLED'] to False here."
)
_READ_RESPONSE = _("Read the response under Reports → IndexNow submissions.")
_REFRESH = _("If this lasts, check the front end's build and its caches.")


class Reason(ExplainedChoices):
    """Why something waits, was skipped, is paused, was refused or was given up."""

    # A go-live, before its page is looked at
    NOT_PUBLISHED_YET = (
        "not_published_yet",
        _("Waiting for publish_scheduled"),
        _("The page is due, but Wagtail's publish_scheduled command has not published it yet."),
        _("Run manage.py publish_scheduled every few minutes."),
        Use.EVENT,
    )
    COPYING = (
        "copying",
        _("Waiting until the copy is complete"),
        _("The page has just been copied. Wagtail copies its privacy settings last."),
        "",
        Use.EVENT,
    )
    SCHEDULE_CANCELLED = (
        "schedule_cancelled",
        _("The schedule was cancelled"),
        _("No version of the page is scheduled any more, and none was published."),
        "",
        Use.EVENT,
    )
    SCHEDULE_CHANGED = (
        "schedule_changed",
        _("Scheduled for another time"),
        _("Another version or another time is scheduled now. That has its own event."),
        "",
        Use.EVENT,
    )
    PUBLISHED_OTHERWISE = (
        "published_otherwise",
        _("Another version was published"),
        _("Another version of the page went live. That has its own event."),
        "",
        Use.EVENT,
    )
    EXPIRED = (
        "expired",
        _("The page expired before its go-live"),
        _("The expiry date of the page had passed by the time it was to go live."),
        "",
        Use.EVENT,
    )
    NEVER_PUBLISHED = (
        "never_published",
        _("Did not go live within seven days"),
        _("The page was still not live seven days after its scheduled time."),
        _("Run manage.py publish_scheduled, then publish the page again."),
        Use.EVENT,
    )
    CANCELLED = (
        "cancelled",
        _("Cancelled"),
        _("A user cancelled the event."),
        _("If that was a mistake, submit the page."),
        Use.EVENT,
    )
    MASS_CHANGE = (
        "mass_change",
        _("Too many changes at once"),
        _("An audit found more differences at one host than a site changes by chance."),
        _("Check the Site records and the settings, then select Apply in Settings → IndexNow."),
        Use.EVENT,
    )
    # A page, in the order in which the guards ask
    DISABLED = (
        "disabled",
        _("IndexNow is switched off"),
        _("IndexNow is switched off on the server where the worker runs."),
        _("Set WAGTAIL_INDEXNOW['ENABLED'] to True, or DEBUG to False."),
        Use.EVENT | Use.LINE,
    )
    PAGE_DELETED = (
        "page_deleted",
        _("The page was deleted"),
        _("The page no longer exists, and none of its URLs had been public."),
        "",
        Use.EVENT,
    )
    NOT_LIVE = (
        "not_live",
        _("The page is not live"),
        _("Only pages that are live are submitted."),
        _("Publish the page."),
        Use.EVENT | Use.LINE,
    )
    PRIVATE = (
        "private",
        _("The page is private"),
        _("The page or one of its parent pages has a privacy setting."),
        _("If the page should be public, change its privacy."),
        Use.EVENT | Use.LINE,
    )
    ALIAS = (
        "alias",
        _("The page is an alias"),
        _("The page is an alias. Its source page is submitted instead."),
        _("To submit aliases too, set WAGTAIL_INDEXNOW['ALIASES'] to True."),
        Use.EVENT | Use.LINE,
    )
    EMBARGOED = (
        "embargoed",
        _("Alias of an unpublished page"),
        _("The page is an alias, and its source page is not live."),
        _("Publish the source page."),
        Use.EVENT | Use.LINE,
    )
    EXCLUDED = (
        "excluded",
        _("Excluded from IndexNow"),
        _("The page, its code or an exclusion keeps it out of IndexNow."),
        _("Clear the page's IndexNow tick box, or lift the exclusion."),
        Use.EVENT | Use.LINE,
    )
    NO_URL = (
        "no_url",
        _("No public URL"),
        _("The page is not below the root page of a Site, or it has no usable URL."),
        _("Check Settings → Sites, and the page's get_indexnow_urls() if it has one."),
        Use.EVENT | Use.LINE,
    )
    FOREIGN_HOST = (
        "foreign_host",
        _("Host not served here"),
        _("The host is not one that this server serves."),
        _SERVE_HOST,
        Use.EVENT | Use.PAUSE | Use.KEY_FILE | Use.LINE,
    )
    PAGE_ERROR = (
        "page_error",
        _("The page's own code failed"),
        _("The page's code raised an error when asked for its URLs. It is tried again for a week."),
        _("Fix the code, then submit the page."),
        Use.EVENT,
    )
    # A pasted line, or a URL given to submit_urls()
    INVALID_URL = (
        "invalid_url",
        _("Not a valid address"),
        _("The line is not an absolute http or https address, or has over 2,048 characters."),
        _("Correct the line."),
        Use.LINE,
    )
    RESERVED_URL = (
        "reserved_url",
        _("Key file or admin address"),
        _("Key files and admin addresses are never submitted."),
        "",
        Use.LINE,
    )
    # A URL that was not submitted
    DRY_RUN = (
        "dry_run",
        _("Dry run"),
        _("WAGTAIL_INDEXNOW['DRY_RUN'] is on: nothing was sent."),
        _("Switch DRY_RUN off, then resubmit."),
        Use.URL | Use.SUBMISSION,
    )
    WITHDRAWN = (
        "withdrawn",
        _("No longer public before submission"),
        _("The URL stopped being public before it was ever submitted."),
        "",
        Use.URL,
    )
    ENDPOINT_GONE = (
        "endpoint_gone",
        _("Search engine no longer configured"),
        _("The search engine is no longer listed in WAGTAIL_INDEXNOW['ENDPOINTS']."),
        "",
        Use.URL,
    )
    GAVE_UP = (
        "gave_up",
        _("Given up after repeated attempts"),
        _("The search engine did not accept the URL within WAGTAIL_INDEXNOW['GIVE_UP_AFTER']."),
        _("Read the responses, then resubmit."),
        Use.URL,
    )
    # Responses of search engines
    BAD_REQUEST = (
        "bad_request",
        _("Request rejected (400)"),
        _("The search engine rejected the request as malformed."),
        _READ_RESPONSE,
        Use.URL | Use.SUBMISSION,
    )
    UNPROCESSABLE = (
        "unprocessable",
        _("URLs rejected (422)"),
        _("The search engine rejected the URLs."),
        _("Read the response, and check that the URLs belong to the host."),
        Use.URL | Use.SUBMISSION,
    )
    TOO_LARGE = (
        "too_large",
        _("Request too large (413)"),
        _("The search engine found the request too large. It is sent once more in halves."),
        "",
        Use.URL | Use.SUBMISSION,
    )
    SERVER_ERROR = (
        "server_error",
        _("Server error at the search engine"),
        _("The search engine answered with a server error. The URLs are sent again."),
        "",
        Use.URL | Use.SUBMISSION | Use.PAUSE,
    )
    NO_RESPONSE = (
        "no_response",
        _("No response"),
        _("The search engine did not respond, or the worker stopped. The URLs are sent again."),
        _("If this lasts, check the worker's network and proxy."),
        Use.URL | Use.SUBMISSION,
    )
    RATE_LIMITED = (
        "rate_limited",
        _("Too many requests (429)"),
        _("The search engine asked for fewer requests. The URLs are sent after the pause."),
        _("If this recurs, lower WAGTAIL_INDEXNOW['RATE_LIMIT']."),
        Use.URL | Use.SUBMISSION | Use.PAUSE,
    )
    ENDPOINT_WRONG = (
        "endpoint_wrong",
        _("The address does not accept submissions"),
        _("The search engine's address redirects, does not exist or refuses the request."),
        _("Correct WAGTAIL_INDEXNOW['ENDPOINTS'], then select Resume."),
        Use.URL | Use.SUBMISSION | Use.PAUSE,
    )
    KEY_UNVERIFIED = (
        "key_unverified",
        _("Key validation pending"),
        _("The search engine has not validated the key yet. The URLs are sent again."),
        "",
        Use.URL | Use.SUBMISSION | Use.PAUSE,
    )
    KEY_REFUSED = (
        "key_refused",
        _("Key rejected"),
        _("The search engine rejects the key although the key file is correct."),
        _("Wait a day, then rotate the key: manage.py indexnow_rotate_key HOST."),
        Use.URL | Use.SUBMISSION | Use.PAUSE,
    )
    BAD_KEY = (
        "bad_key",
        _("Key or its location rejected"),
        _("The search engine rejects the form of the key or the address of its file."),
        _("Read the response, check WAGTAIL_INDEXNOW['KEYS'], and rotate the key."),
        Use.URL | Use.SUBMISSION | Use.PAUSE,
    )
    KEY_FILE = (
        "key_file",
        _("Key file could not be verified"),
        _("The host's key file did not contain exactly the key when it was last checked."),
        _("Fix the key file, then select Verify now in Settings → IndexNow."),
        Use.URL | Use.SUBMISSION | Use.PAUSE,
    )
    OTHER_INSTALLATION = (
        "other_installation",
        _("Another installation serves this host"),
        _("The host's key file is signed by another installation."),
        _COPY,
        Use.URL | Use.PAUSE | Use.KEY_FILE,
    )
    # What the public sees
    NOT_PUBLIC_YET = (
        "not_public_yet",
        _("Waiting until the page is public"),
        _("The page is not live, is private, or its public address does not show it yet."),
        _("If this lasts, check the front end's build and caches, and unpublish in the admin."),
        Use.URL,
    )
    NOT_REFRESHED_YET = (
        "not_refreshed_yet",
        _("Waiting for the new version"),
        _("The public address still shows an older version of the page."),
        _REFRESH,
        Use.URL,
    )
    NO_PAGE_RESPONSE = (
        "no_page_response",
        _("The page did not respond"),
        _("The public address did not respond, or answered with an error."),
        _("Check the web server."),
        Use.URL,
    )
    CANNOT_CHECK = (
        "cannot_check",
        _("The page cannot be checked from here"),
        _("The web server refuses the app's requests, for the home page too."),
        _("Allow the app's User-Agent, or set WAGTAIL_INDEXNOW['CONNECT_TO']."),
        Use.URL,
    )
    NOT_PUBLIC = (
        "not_public",
        _("Not confirmed as public in time"),
        _("The public address did not show the change within WAGTAIL_INDEXNOW['GIVE_UP_AFTER']."),
        _("Check the front end, then resubmit."),
        Use.URL,
    )
    STILL_PUBLIC = (
        "still_public",
        _("Still public"),
        _("The page was removed, but its public address still shows it."),
        _("Remove it from the front end or its cache, then resubmit."),
        Use.URL,
    )
    NOINDEX = (
        "noindex",
        _("Marked noindex"),
        _("The public page asks search engines not to index it."),
        _("If that is not intended, remove the noindex mark."),
        Use.URL,
    )
    ROBOTS_TXT = (
        "robots_txt",
        _("Blocked by robots.txt"),
        _("The host's robots.txt forbids the address to every participating search engine."),
        _("If that is not intended, change robots.txt."),
        Use.URL,
    )
    CANONICAL_ELSEWHERE = (
        "canonical_elsewhere",
        _("Canonical is another URL"),
        _("The public page names another address as its canonical URL."),
        _("If that is not intended, correct the canonical link."),
        Use.URL,
    )
    REDIRECTS = (
        "redirects",
        _("Redirects to another URL"),
        _("The public address redirects to another address."),
        _("If that is not intended, remove the redirect."),
        Use.URL,
    )


#: Responses and pauses that pass without anybody doing anything.
PASSING_REASONS = frozenset(
    {Reason.KEY_UNVERIFIED, Reason.RATE_LIMITED, Reason.SERVER_ERROR, Reason.TOO_LARGE}
)


class FetchedAs(TextChoices):
    """What an anonymous visitor was last given at a URL."""

    INDEXABLE = "indexable", _("Public and indexable")
    NOINDEX = "noindex", _("Marked noindex")
    CANONICAL_ELSEWHERE = "canonical_elsewhere", _("Canonical is another URL")
    REDIRECTS = "redirects", _("Redirects to another URL")
    ROBOTS_TXT = "robots_txt", _("Blocked by robots.txt")
    GONE = "gone", _("Not found")
    REFUSED = "refused", _("Refused")
    ERROR = "error", _("No usable response")


PAYLOAD_VERSION = 1
LIST_SIZE = 100  # intents in one message
PARKED_MESSAGES = 500  # delayed messages in the broker at a time
MAX_URL_LENGTH = 2_048  # characters
MAX_URLS_PER_POST = 10_000  # the protocol's limit
MAX_BODY_BYTES = 5_000_000
EXCERPT_LENGTH = 2_048  # characters of an answer that are kept

WAIT_DELAYS = (timedelta(seconds=60), timedelta(minutes=5))
WAIT_DELAY_MAX = timedelta(minutes=15)
NEVER_PUBLISHED_AFTER = timedelta(days=7)
CANCEL_RECHECK = timedelta(seconds=60)
COPY_SETTLE = timedelta(seconds=60)
COPY_WINDOW = timedelta(days=1)
LEASE_MIN = timedelta(seconds=60)
LEASE_MAX = timedelta(hours=1)

RELAY_HEARTBEAT = "relay"  # Heartbeat.name
WORKER_HEARTBEAT = "worker"
AUDIT_HEARTBEAT = "audit"  # when the last audit was planned

_SERVE_IT = _(
    "Include wagtail_indexnow.urls at the root of ROOT_URLCONF, before Wagtail's URLs and outside "
    "i18n_patterns(), and make sure that every proxy passes the request on."
)
_ALLOW_IT = _(
    "Allow requests for the key file: search engines fetch it without cookies or scripts. If this "
    "is a copy of the site, set WAGTAIL_INDEXNOW['ENABLED'] to False here."
)
_REACH_IT = _(
    "Check the host name and the firewall. If only the workers cannot reach the public name, set "
    "WAGTAIL_INDEXNOW['CONNECT_TO']."
)
_CLEAN_IT = _("Save the file with nothing but the key in it, or let Django serve it.")


class KeyFile(ExplainedChoices):
    """What a check of a key file found."""

    OK = (
        "ok",
        _("Key file verified"),
        _("The key file contains exactly the key."),
        "",
        Use.KEY_FILE,
    )
    NOT_FOUND = (
        "not_found",
        _("No key file at this address"),
        _("The address answers 404 or 410."),
        _SERVE_IT,
        Use.KEY_FILE,
    )
    REDIRECT = (
        "redirect",
        _("The key file's address redirects"),
        _("Search engines do not follow redirects to a key file."),
        _(
            "Serve the file without a redirect to a slash, a language, https or another host. If "
            "TLS ends before Django, set WAGTAIL_INDEXNOW['SCHEME'] to \"https\"."
        ),
        Use.KEY_FILE,
    )
    HTML = (
        "html",
        _("An HTML page instead of the key file"),
        _("The address answers with an HTML page."),
        _SERVE_IT,
        Use.KEY_FILE,
    )
    BOT_WALL = (
        "bot_wall",
        _("A bot check blocks the key file"),
        _("A firewall or challenge page answers instead of the key file."),
        _ALLOW_IT,
        Use.KEY_FILE,
    )
    FORBIDDEN = (
        "forbidden",
        _("The server denies access to the key file"),
        _("The address answers 401, 403 or 429."),
        _ALLOW_IT,
        Use.KEY_FILE,
    )
    BOM = (
        "bom",
        _("The key file begins with a byte order mark"),
        _("There are bytes before the key that search engines do not ignore."),
        _CLEAN_IT,
        Use.KEY_FILE,
    )
    TRAILING_NEWLINE = (
        "trailing_newline",
        _("The key file contains white space around the key"),
        _("There are spaces or line breaks around the key."),
        _CLEAN_IT,
        Use.KEY_FILE,
    )
    OTHER_BODY = (
        "other_body",
        _("The key file contains something else"),
        _("The address answers with something other than the key."),
        _SERVE_IT,
        Use.KEY_FILE,
    )
    TIMEOUT = (
        "timeout",
        _("The key file did not respond in time"),
        _("There was no complete response within WAGTAIL_INDEXNOW['TIMEOUT']."),
        _REACH_IT,
        Use.KEY_FILE,
    )
    UNREACHABLE = (
        "unreachable",
        _("The host could not be reached"),
        _("Name resolution, connection or TLS failed."),
        _REACH_IT,
        Use.KEY_FILE,
    )
    SERVER_FAULT = (
        "server_fault",
        _("The site's server failed"),
        _("The address answers with a server error (5xx)."),
        _("Check the server's log for this request."),
        Use.KEY_FILE,
    )
    FOREIGN_HOST = (
        "foreign_host",
        _("Host not served here"),
        _("No Site and no setting names the host."),
        _("Add the host in Settings → Sites, or to WAGTAIL_INDEXNOW['HOSTS']."),
        Use.KEY_FILE,
    )
    PRIVATE_HOST = (
        "private_host",
        _("The host is a private address"),
        _("Search engines cannot reach the host's address."),
        _(
            "Enter the site's public name in Settings → Sites, or set CONNECT_TO if this server "
            "reaches that name only inside its own network. If this is a copy of the site, set "
            "WAGTAIL_INDEXNOW['ENABLED'] to False here."
        ),
        Use.KEY_FILE,
    )
    OTHER_INSTALLATION = (
        "other_installation",
        _("Another installation serves the key file"),
        _("The key file is signed by another installation; this may be a copy of it."),
        _COPY,
        Use.KEY_FILE,
    )
    UNSIGNED = (
        "unsigned",
        _("The key file is not signed"),
        _("The key is right, but nothing shows that this installation serves the file."),
        _("Let Django serve the file, or add the static file's key to WAGTAIL_INDEXNOW['KEYS']."),
        Use.KEY_FILE,
    )
