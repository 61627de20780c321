"""Names and limits that several modules share. Names are the contract: they are stored."""

from datetime import timedelta

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

APP_LABEL = "wagtail_indexnow"
ANNOUNCE_ACTOR = "wagtail_indexnow.announce"
SUBMIT_ACTOR = "wagtail_indexnow.submit"


class Kind(TextChoices):
    """Why a page is looked at again."""

    GO_LIVE = "go_live", _("Scheduled to go live")
    PUBLISH = "publish", _("Published")
    REMOVE = "remove", _("Taken offline")
    MOVE = "move", _("Moved or renamed")
    VISIBILITY = "visibility", _("Hidden or shown")
    MANUAL = "manual", _("Submitted by hand")
    AUDIT = "audit", _("Audit")


class IntentState(TextChoices):
    PLANNED = "planned", _("Planned")
    ANNOUNCED = "announced", _("Announced")
    SKIPPED = "skipped", _("Skipped")
    CANCELLED = "cancelled", _("Cancelled")
    FAILED = "failed", _("Failed")


class UrlState(TextChoices):
    PENDING = "pending", _("Pending")
    ACCEPTED = "accepted", _("Told")
    REJECTED = "rejected", _("Rejected")
    FAILED = "failed", _("Failed")
    SKIPPED = "skipped", _("Not sent")


class Change(TextChoices):
    """What happened to a URL since the engine last heard of it."""

    ADDED = "added", _("Added")
    UPDATED = "updated", _("Updated")
    REMOVED = "removed", _("Removed")


class Reason(TextChoices):
    """Why something waits or was not sent: one plain sentence for an editor each."""

    # of an intent
    NOT_PUBLISHED_YET = (
        "not_published_yet",
        _("Waiting for Wagtail's publish_scheduled command to publish the page."),
    )
    PAGE_DELETED = "page_deleted", _("The page was deleted.")
    SCHEDULE_CHANGED = "schedule_changed", _("The page was scheduled for another time.")
    SCHEDULE_CANCELLED = "schedule_cancelled", _("The schedule was cancelled.")
    PUBLISHED_OTHERWISE = (
        "published_otherwise",
        _("Another version was published; that was announced by itself."),
    )
    EXPIRED = "expired", _("The page had expired, or the time for trying ran out.")
    NEVER_PUBLISHED = "never_published", _("The page did not go live within seven days.")
    CANCELLED = "cancelled", _("Somebody cancelled this announcement.")
    MASS_CHANGE = "mass_change", _("Too many changes at once.")
    COPYING = "copying", _("The page is being copied; its privacy is not settled yet.")
    PAGE_ERROR = "page_error", _("The page's own code failed while its URLs were asked for.")
    # of a page
    DISABLED = "disabled", _("IndexNow is switched off on this server.")
    NOT_LIVE = "not_live", _("The page is not live.")
    PRIVATE = "private", _("The page is private.")
    ALIAS = "alias", _("The page is an alias; its source is announced instead.")
    EMBARGOED = "embargoed", _("The page is an alias of a page that is not live yet.")
    EXCLUDED = "excluded", _("The page is kept away from search engines.")
    NO_URL = "no_url", _("The page has no public URL.")
    FOREIGN_HOST = "foreign_host", _("The page's host is not served by this server.")
    # of a URL or channel
    DRY_RUN = "dry_run", _("Dry run: nothing is really sent.")
    WITHDRAWN = "withdrawn", _("The URL was no longer public before it could be sent.")
    ENDPOINT_GONE = "endpoint_gone", _("The search engine is no longer configured.")
    KEY_FILE = "key_file", _("The key file does not answer as a search engine needs it.")
    OTHER_INSTALLATION = (
        "other_installation",
        _("Another installation answers for this host; perhaps this is a copy of it."),
    )
    KEY_UNVERIFIED = "key_unverified", _("The engine is still verifying the key.")
    KEY_REFUSED = "key_refused", _("The engine refuses the key; rotate it.")
    BAD_KEY = "bad_key", _("The engine finds fault with the key or its location.")
    BAD_REQUEST = "bad_request", _("The engine rejected the request.")
    UNPROCESSABLE = "unprocessable", _("The engine rejected the URLs.")
    ENDPOINT_WRONG = "endpoint_wrong", _("The engine's address does not accept submissions.")
    RATE_LIMITED = "rate_limited", _("The engine asked us to slow down.")
    TOO_LARGE = "too_large", _("The engine found the request too large.")
    SERVER_ERROR = "server_error", _("The engine had a fault.")
    NO_RESPONSE = "no_response", _("The engine did not answer.")


#: After these a POST may have arrived all the same: the engine may know of its URLs.
UNKNOWN_FATES = frozenset({Reason.NO_RESPONSE, Reason.SERVER_ERROR})

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


class KeyFile(TextChoices):
    """What a look at a key file found."""

    OK = "ok", _("The key file answers exactly the key.")
    NOT_FOUND = "not_found", _("There is no key file at this address.")
    REDIRECT = "redirect", _("The address redirects; engines do not follow.")
    HTML = "html", _("An HTML page answers in place of the key file.")
    BOT_WALL = "bot_wall", _("A firewall or bot check stands before the key file.")
    FORBIDDEN = "forbidden", _("The server refuses access to the key file.")
    BOM = "bom", _("The key file begins with a byte order mark.")
    TRAILING_NEWLINE = "trailing_newline", _("The key file has white space around the key.")
    OTHER_BODY = "other_body", _("The key file holds something else.")
    TIMEOUT = "timeout", _("The key file did not answer in time.")
    UNREACHABLE = "unreachable", _("The host could not be reached.")
    SERVER_FAULT = "server_fault", _("The server had a fault.")
    FOREIGN_HOST = "foreign_host", _("The host is not served here.")
    PRIVATE_HOST = "private_host", _("The host is a private address that no engine can reach.")
    OTHER_INSTALLATION = (
        "other_installation",
        _("Another installation answers; perhaps this is a copy of it."),
    )
    UNSIGNED = (
        "unsigned",
        _("The key file is right, but it does not say that this installation serves it."),
    )
