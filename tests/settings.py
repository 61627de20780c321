"""Settings of the test project: three languages, i18n prefixes, everything else as Wagtail ships.

`DATABASE` picks the database: unset for SQLite, else `postgres` or `mariadb`, whose usual
environment variables (PGHOST, MYSQL_HOST, …) say where it is.
"""

import os
import tempfile
from importlib.util import find_spec
from pathlib import Path

BASE_DIR = Path(__file__).parent
SECRET_KEY = "test-secret"
DEBUG = False
USE_TZ = True
TIME_ZONE = "UTC"
ROOT_URLCONF = "tests.urls"
ALLOWED_HOSTS = [".example.com", "xn--mnchen-3ya.example", "testserver"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "tests.testapp",
    "wagtail_indexnow",
    "django_dramatiq",
    "wagtail.contrib.simple_translation",
    "wagtail.contrib.forms",
    "wagtail.contrib.redirects",
    "wagtail.contrib.routable_page",
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
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
]

# Doors to pages that not every environment has: Wagtail 8's REST API, and wagtail-localize.
INSTALLED_APPS += [name for name in ("wagtail.api.v3", "wagtail_localize") if find_spec(name)]
if os.environ.get("DATABASE") == "postgres":
    # Since 6.1 Django demands it of whoever has fields of PostgreSQL's, as Wagtail's search does.
    INSTALLED_APPS += ["django.contrib.postgres"]

MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.debug",
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

_NAME = os.environ.get("TEST_DB_NAME", "wagtail_indexnow")
_DATABASES = {
    "sqlite": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get(
            "SQLITE_PATH", str(Path(tempfile.gettempdir()) / f"{_NAME}.sqlite3")
        ),
        # A file, since worker threads share nothing in memory that they could wait for.
        # `make quick` keeps one, whose tables are there already.
        "TEST": {
            "NAME": str(
                Path(tempfile.gettempdir())
                / f"{_NAME}-{os.environ.get('KEPT_DB') or os.getpid()}.sqlite3"
            )
        },
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF;",
        },
    },
    "postgres": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _NAME,
        "HOST": os.environ.get("PGHOST", "127.0.0.1"),
        "PORT": os.environ.get("PGPORT", "5432"),
        "USER": os.environ.get("PGUSER", "postgres"),
        "PASSWORD": os.environ.get("PGPASSWORD", ""),
    },
    "mariadb": {
        "ENGINE": "django.db.backends.mysql",
        "NAME": _NAME,
        "HOST": os.environ.get("MYSQL_HOST", "127.0.0.1"),
        "PORT": os.environ.get("MYSQL_PORT", "3306"),
        "USER": os.environ.get("MYSQL_USER", "root"),
        "PASSWORD": os.environ.get("MYSQL_PASSWORD", ""),
        "OPTIONS": {"charset": "utf8mb4"},
    },
}
DATABASES = {"default": _DATABASES[os.environ.get("DATABASE") or "sqlite"]}
if os.environ.get("DATABASE") == "mariadb":
    import pymysql

    # Django asks for mysqlclient's version; PyMySQL speaks the same interface.
    pymysql.version_info = (2, 2, 7, "final", 0)
    pymysql.install_as_MySQLdb()

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
STATIC_URL = "/static/"
MEDIA_ROOT = Path(tempfile.gettempdir()) / "wagtail_indexnow_media"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.InMemoryStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}

LANGUAGE_CODE = "en"
LANGUAGES = WAGTAIL_CONTENT_LANGUAGES = [("en", "English"), ("fr", "French"), ("de", "German")]
USE_I18N = True
WAGTAIL_I18N_ENABLED = True
WAGTAILSIMPLETRANSLATION_SYNC_PAGE_TREE = False
WAGTAIL_SITE_NAME = "IndexNow test project"
WAGTAILADMIN_BASE_URL = "http://admin.invalid"
WAGTAILSEARCH_BACKENDS = {"default": {"BACKEND": "wagtail.search.backends.database"}}

DRAMATIQ_BROKER = {
    "BROKER": os.environ.get("TEST_BROKER", "dramatiq.brokers.stub.StubBroker"),
    "OPTIONS": {"url": os.environ["TEST_BROKER_URL"]} if "TEST_BROKER_URL" in os.environ else {},
    "MIDDLEWARE": [
        "dramatiq.middleware.AgeLimit",
        "dramatiq.middleware.TimeLimit",
        "dramatiq.middleware.Callbacks",
        "dramatiq.middleware.Retries",
        "django_dramatiq.middleware.DbConnectionsMiddleware",
    ],
}

WAGTAIL_INDEXNOW = {"ENABLED": True, "RELAY_INTERVAL": 0}

ARTICLE_MODEL = "testapp.ArticlePage"  # of tests/factories.py
