"""System checks `wagtail_indexnow.E…` and `W…`: what is wrong before anything is sent.

Ids are never reused. None of them touches the network; those that read Sites run only where the
database may be asked (`check --database`, `migrate`, `indexnow_check`).
"""

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from typing import Any

import dramatiq
from django.apps import apps
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.checks import Warning as CheckWarning
from django.db import DatabaseError, router
from dramatiq.middleware import AgeLimit, TimeLimit
from wagtail.models import Site

from . import hosts
from .conf import SETTING, SETTINGS, conf, problems
from .constants import APP_LABEL
from .models import Intent
from .pages.model import page_model
from .routes import RouteProblem, key_route_problem
from .submission import client
from .visits.figures import MIDDLEWARE as VISIT_MIDDLEWARE

#: On PyPI, with the same import name: the two exclude each other.
OTHER_DISTRIBUTION = "wagtail-indexnow"
#: What the extra `[verify]` installs.
VERIFY_LIBRARIES = ("lxml", "protego")

Found = Iterator[CheckMessage]


def _static(check: Callable[[], Found]) -> Callable[[], Found]:
    """Register a check of settings and code, and return it as it is."""

    # Not `wraps`: Django reads the signature, and would read the wrapped one's.
    def run(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
        return list(check())

    register(run, APP_LABEL)
    return check


def _of_sites(check: Callable[[Site], Found]) -> Callable[[Site], Found]:
    """Register a check of each Site, where the database may be asked and has the table."""

    def run(
        app_configs: Any = None, databases: Sequence[str] | None = None, **kwargs: Any
    ) -> list[CheckMessage]:
        alias = router.db_for_read(Site)
        if alias not in (databases or ()) or _is_misconfigured() or not conf.enabled:
            return []
        try:
            sites = list(Site.objects.using(alias))
        except DatabaseError:  # before the first `migrate`
            return []
        return [message for site in sites for message in check(site)]

    register(run, APP_LABEL, Tags.database)
    return check


def _is_misconfigured() -> bool:
    """Say whether settings have the wrong shape: the other checks could not read them."""
    return any(True for _problem in problems())


def _error(number: str, message: str, hint: str) -> Error:
    return Error(message, hint=hint, id=f"{APP_LABEL}.{number}")


def _warning(number: str, message: str, hint: str) -> CheckWarning:
    return CheckWarning(message, hint=hint, id=f"{APP_LABEL}.{number}")


@_static
def settings_check() -> Found:
    """Report unknown keys, wrong values, and IndexNow keys of the wrong shape."""
    for name, expected in problems():
        hint = f"Make it {expected}."
        if name == SETTING:
            yield _error("E001", f"{SETTING} is not a dictionary.", hint)
        elif name not in SETTINGS:
            yield _error("E001", f"{SETTING} has an unknown key: {name!r}.", f"Use {expected}.")
        elif name == "KEYS":
            yield _error("E003", f"{SETTING}['KEYS'] holds something that is no key.", hint)
        else:
            yield _error("E002", f"{SETTING}[{name!r}] has a wrong value.", hint)


@_static
def endpoints_check() -> Found:
    """Keys are secrets until their file is public: they travel encrypted."""
    if _is_misconfigured():
        return
    for name, url in conf.endpoints.items():
        if not url.lower().startswith("https://") and not hosts.is_loopback_url(url):
            yield _error(
                "E004",
                f"The search engine {name!r} would be told without encryption.",
                f"Use https:// in {SETTING}['ENDPOINTS'][{name!r}].",
            )


@_static
def distribution_check() -> Found:
    """Report the other package that installs the same import name."""
    try:
        metadata.distribution(OTHER_DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return
    yield _error(
        "E005",
        f"The package {OTHER_DISTRIBUTION} is installed too, and overwrites files of this one.",
        f"pip uninstall {OTHER_DISTRIBUTION}, then reinstall wagtail-indexnow-dramatiq.",
    )


@_static
def database_check() -> Found:
    """The editor's change and its row are one transaction, and are read together."""
    if router.db_for_write(Intent) != router.db_for_write(page_model()):
        yield _error(
            "E007",
            "The tables of wagtail_indexnow are in another database than the pages.",
            f"Let DATABASE_ROUTERS send {APP_LABEL} where wagtailcore is.",
        )


@_static
def broker_check() -> Found:
    """Report a missing, second or forgetful broker, and workers that miss our actors."""
    if _is_misconfigured():
        return
    if not apps.is_installed("django_dramatiq"):
        if conf.enabled and conf.relay_interval_s > 0:
            yield _warning(
                "W001",
                "django_dramatiq is not installed: no worker announces anything.",
                "Add it to INSTALLED_APPS. For a site without workers set "
                f"{SETTING}['RELAY_INTERVAL'] to 0 and let cron run "
                "`manage.py indexnow_relay --inline` each minute.",
            )
        return
    # Only now: importing actors binds them to the broker that is there.
    from . import tasks

    broker = dramatiq.get_broker()
    if tasks.announce.broker is not broker:
        yield _error(
            "E006",
            "The actors of wagtail_indexnow belong to another Dramatiq broker than the site's.",
            "Set the broker once, in DRAMATIQ_BROKER, and import no actors before Django is set "
            "up.",
        )
    yield from _age_limit(broker)
    yield from _time_limit(broker)
    yield from _discovery()


def _age_limit(broker: dramatiq.Broker) -> Found:
    wait_ms = conf.schedule_horizon.total_seconds() * 1000
    for middleware in broker.middleware:
        if isinstance(middleware, AgeLimit) and middleware.max_age and middleware.max_age < wait_ms:
            yield _warning(
                "W008",
                f"Dramatiq drops messages after {middleware.max_age} ms; go-lives wait longer.",
                f"Raise AgeLimit's max_age, or lower {SETTING}['SCHEDULE_HORIZON'] below it.",
            )


def _time_limit(broker: dramatiq.Broker) -> Found:
    # A POST is fenced by a lease of this length: what takes longer is taken for dead.
    needed_s = max(120.0, 2 * conf.timeout_s + 30)
    for middleware in broker.middleware:
        if isinstance(middleware, TimeLimit) and middleware.time_limit < needed_s * 1000:
            yield _warning(
                "W010",
                f"Dramatiq's TimeLimit ends work after {middleware.time_limit:g} ms, which may be "
                "in the middle of a submission.",
                f"Raise its time_limit to {needed_s * 1000:g} ms or more, or lower "
                f"{SETTING}['TIMEOUT'].",
            )


def _discovery() -> Found:
    modules = getattr(settings, "DRAMATIQ_AUTODISCOVER_MODULES", ("tasks",))
    ignored = getattr(settings, "DRAMATIQ_IGNORED_MODULES", ())
    if "tasks" not in modules or f"{APP_LABEL}.tasks" in ignored:
        yield _warning(
            "W009",
            "Workers do not load wagtail_indexnow.tasks, and so put its messages aside.",
            'Keep "tasks" in DRAMATIQ_AUTODISCOVER_MODULES and take it out of '
            "DRAMATIQ_IGNORED_MODULES.",
        )


@_static
def verification_check() -> Found:
    """Report that pages are to be checked, which this version cannot do yet."""
    if _is_misconfigured() or not conf.verify_pages:
        return
    missing = [name for name in VERIFY_LIBRARIES if importlib.util.find_spec(name) is None]
    if missing:
        yield _error(
            "E008",
            f"{SETTING}['VERIFY_PAGES'] needs {' and '.join(missing)}, which cannot be imported.",
            'pip install "wagtail-indexnow-dramatiq[verify]"',
        )
    else:
        yield _error(
            "E008",
            f"{SETTING}['VERIFY_PAGES'] is not available yet: URLs would wait for ever.",
            "Remove VERIFY_PAGES until a release says that it checks public pages.",
        )


@_static
def visits_check() -> Found:
    """Report a VisitMiddleware behind others, which may answer before it sees the request."""
    middleware = list(settings.MIDDLEWARE)
    if VISIT_MIDDLEWARE in middleware[1:]:
        yield _warning(
            "W013",
            "VisitMiddleware is not the first in MIDDLEWARE: it misses what others answer first.",
            f'Move "{VISIT_MIDDLEWARE}" to the top of MIDDLEWARE.',
        )


@_static
def proxy_check() -> Found:
    """Report a proxy of the environment that no submission can go through."""
    if _is_misconfigured() or not conf.enabled:
        return
    for name, url in conf.endpoints.items():
        problem = client.proxy_problem(url)
        if problem:
            yield _warning(
                "W011",
                f"The proxy settings of the environment cannot be used for {name!r}: {problem}",
                "Correct HTTPS_PROXY, HTTP_PROXY and ALL_PROXY, or list the host in NO_PROXY. "
                "For a socks5:// address install httpx[socks].",
            )


@_static
def sqlite_check() -> Found:
    """Report SQLite where a reader cannot become a writer while a worker writes."""
    if _is_misconfigured() or not conf.enabled:
        return
    database: Any = settings.DATABASES.get(router.db_for_write(Intent), {})
    is_sqlite = str(database.get("ENGINE", "")).endswith("sqlite3")
    mode = str((database.get("OPTIONS") or {}).get("transaction_mode") or "").upper()
    if is_sqlite and mode not in {"IMMEDIATE", "EXCLUSIVE"}:
        yield _warning(
            "W012",
            "SQLite is used without transaction_mode IMMEDIATE: an editor may see “database is "
            "locked” while a worker writes.",
            'Set "transaction_mode": "IMMEDIATE" in the OPTIONS of the database.',
        )


@_static
def hosts_check() -> Found:
    """`*` lets every host in, and so proves nothing about which one is this site's."""
    named = [name for name in settings.ALLOWED_HOSTS if name != "*"]
    if not _is_misconfigured() and conf.enabled and conf.hosts is None and not named:
        yield _warning(
            "W002",
            "ALLOWED_HOSTS names no host, so that no page's host is known to be served here.",
            f"Name the site's hosts in ALLOWED_HOSTS or in {SETTING}['HOSTS'].",
        )


@_static
def key_route_check() -> Found:
    """Report a key file that engines will not reach."""
    problem = key_route_problem() if getattr(settings, "ROOT_URLCONF", None) else None
    if problem is not None:
        yield _ROUTE_MESSAGES[problem.kind](problem)


def _missing(problem: RouteProblem) -> CheckWarning:
    return _warning(
        "W003",
        "ROOT_URLCONF does not serve the key file.",
        'Put path("", include("wagtail_indexnow.urls")) before Wagtail\'s URLs, or let the web '
        f"server answer for the keys in {SETTING}['KEYS'] and silence this check.",
    )


def _shadowed(problem: RouteProblem) -> CheckWarning:
    return _warning(
        "W004",
        f"The route {problem.where!r} takes the key file's requests.",
        'Put path("", include("wagtail_indexnow.urls")) before it.',
    )


def _elsewhere(problem: RouteProblem) -> CheckWarning:
    return _warning(
        "W005",
        f"The key file is served at {problem.where!r}, where no engine asks for it.",
        "Include wagtail_indexnow.urls at the root: outside i18n_patterns(), without a prefix and "
        "without a slash at the end.",
    )


_ROUTE_MESSAGES = {"missing": _missing, "shadowed": _shadowed, "elsewhere": _elsewhere}


@_of_sites
def served_sites_check(site: Site) -> Found:
    """Report Sites whose pages no engine will hear of."""
    url = hosts.normalise(site.root_url)
    if url is None or not hosts.is_served(hosts.host_of(url)):
        yield _warning(
            "W006",
            f"The Site {site.hostname!r}, port {site.port}, is not served here: its pages are not "
            "announced.",
            "Give it its public name in Settings → Sites, and name that in ALLOWED_HOSTS or in "
            f"{SETTING}['HOSTS']. If this is a copy of the site, set {SETTING}['ENABLED'] to False "
            "instead.",
        )


@_of_sites
def tls_check(site: Site) -> Found:
    """Report Sites whose URLs would be announced as http although https answers."""
    uses_tls = (
        settings.SECURE_SSL_REDIRECT
        or settings.SECURE_HSTS_SECONDS
        or settings.SECURE_PROXY_SSL_HEADER
    )
    if uses_tls and site.port == 80 and conf.scheme is None:
        yield _warning(
            "W007",
            f"The Site {site.hostname!r} says port 80, but this server speaks https.",
            f'Set its port to 443 in Settings → Sites, or {SETTING}["SCHEME"] to "https".',
        )
