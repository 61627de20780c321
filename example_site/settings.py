"""Settings of the example site: three languages, two Sites, everything on this machine.

`python -m example_site.demo` sets the environment variables that are read here; each has a
default, so that `python -m example_site.manage` works by itself too.

`DEBUG` is off, so that pages, errors and defaults are those of a production site. The static
files then need `runserver --insecure`, which is fine on loopback and nowhere else.
"""

import os
import zlib
from pathlib import Path

from example_site.time_zone import time_zone

BASE_DIR = Path(__file__).resolve().parent
VAR_DIR = Path(os.environ.get("EXAMPLE_VAR") or BASE_DIR / "var").resolve()
VAR_DIR.mkdir(parents=True, exist_ok=True)  # SQLite makes its file, but no directory for it
PORT = int(os.environ.get("EXAMPLE_PORT", "8000"))
ENGINE_URL = os.environ.get("EXAMPLE_ENGINE_URL", "http://127.0.0.1:8800")
REDIS_URL = os.environ.get("REDIS_URL") or "redis://127.0.0.1:6379/0"

SECRET_KEY = "the example site has no secrets"
DEBUG = False
# Two hosts that mean this machine everywhere: the two Sites need no DNS.
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
ROOT_URLCONF = "example_site.urls"
WSGI_APPLICATION = "example_site.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "example_site.content",
    "wagtail_indexnow",
    "django_dramatiq",
    "wagtail.contrib.simple_translation",
    "wagtail.contrib.redirects",
    "wagtail.contrib.forms",
    "wagtail.locales",
    "wagtail.embeds",
    "wagtail.sites",
    "wagtail.users",
    "wagtail.snippets",
    "wagtail.documents",
    "wagtail.images",
    "wagtail.search",
    "wagtail.admin",
    "wagtail",
    "modelcluster",
    "taggit",
    "django_filters",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "wagtail.contrib.redirects.middleware.RedirectMiddleware",
]

X_FRAME_OPTIONS = "SAMEORIGIN"  # Wagtail shows previews in a frame
DATA_UPLOAD_MAX_NUMBER_FIELDS = 10_000  # as Wagtail's own project template

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "example_site.content.words.words",
            ],
        },
    },
]

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": VAR_DIR / "example.sqlite3",
        "OPTIONS": {
            # Web server, worker and publish_scheduled write at the same time: wait for each
            # other, and take the lock at the start, since SQLite cannot wait for it later.
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL",
        },
    }
}

STATIC_URL = "/static/"
MEDIA_URL = "/media/"
MEDIA_ROOT = VAR_DIR / "media"

USE_TZ = True
TIME_ZONE = time_zone()
USE_I18N = True
LANGUAGE_CODE = "en"
LANGUAGES = WAGTAIL_CONTENT_LANGUAGES = [("en", "English"), ("fr", "French"), ("de", "German")]

WAGTAIL_SITE_NAME = "Harbour Museum"
WAGTAIL_I18N_ENABLED = True
WAGTAILADMIN_BASE_URL = f"http://localhost:{PORT}"
WAGTAILSEARCH_BACKENDS = {"default": {"BACKEND": "wagtail.search.backends.database"}}
# The demo stays on this machine: no look at release notes, no avatars from elsewhere.
WAGTAIL_ENABLE_UPDATE_CHECK = False
WAGTAIL_GRAVATAR_PROVIDER_URL = None

EMAIL_BACKEND = "django.core.mail.backends.console.EmailBackend"

REDIS_TIMEOUTS = "socket_connect_timeout=2&socket_timeout=5"

# A whole setting: django-dramatiq 0.15's default names a middleware that Dramatiq 2 lacks.
DRAMATIQ_BROKER = {
    "BROKER": "dramatiq.brokers.redis.RedisBroker",
    "OPTIONS": {
        # The time-outs stand in the URL: RedisBroker ignores other connection options
        # when it is given one.
        # A Redis that others use as well keeps each copy of the demo by itself.
        "namespace": f"indexnow-example-{zlib.crc32(bytes(VAR_DIR)):08x}",
        "url": REDIS_URL + ("&" if "?" in REDIS_URL else "?") + REDIS_TIMEOUTS,
    },
    "MIDDLEWARE": [
        "dramatiq.middleware.AgeLimit",
        "dramatiq.middleware.TimeLimit",
        "dramatiq.middleware.Callbacks",
        "dramatiq.middleware.Retries",
        "django_dramatiq.middleware.DbConnectionsMiddleware",
    ],
}

WAGTAIL_INDEXNOW = {
    "ENABLED": True,
    "ENDPOINTS": {"demo": f"{ENGINE_URL}/indexnow"},
    # All much shorter than on a real site: somebody is looking.
    "SETTLE_SECONDS": 1,
    "HOST_INTERVAL": 2,
    "RATE_LIMIT": 60,
    "RESUBMIT_AFTER": float(os.environ.get("EXAMPLE_RESUBMIT_AFTER", "20")),
    "RELAY_INTERVAL": 1,
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": "WARNING"},
    "loggers": {
        "wagtail_indexnow": {"level": "INFO"},
        "example_site": {"level": "INFO"},
    },
}
