"""Build the package, install the wheel into an empty environment elsewhere, and use it there.

Run by `tox run -e wheel`. What is missing from the wheel is found here and nowhere else: the
checkout is not on the path.
"""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
WANTED = (
    "wagtail_indexnow/py.typed",
    "wagtail_indexnow/migrations/0001_initial.py",
    "wagtail_indexnow/management/commands/indexnow_check.py",
)
UNWANTED = ("tests/", "example_site/", "docs/")
#: Shipped beside code, and easily forgotten in a wheel.
DATA_FOLDERS = ("templates", "static", "locale")

SETTINGS = """
SECRET_KEY = "wheel"
ROOT_URLCONF = "urls"
ALLOWED_HOSTS = ["www.example.com"]
USE_TZ = True
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": "site.sqlite3",
        "OPTIONS": {"transaction_mode": "IMMEDIATE"},
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    "wagtail_indexnow", "django_dramatiq", "wagtail.users", "wagtail.sites", "wagtail.snippets",
    "wagtail.documents", "wagtail.images", "wagtail.search", "wagtail.admin", "wagtail",
    "modelcluster", "taggit", "django_filters", "django.contrib.auth",
    "django.contrib.contenttypes", "django.contrib.sessions", "django.contrib.messages",
    "django.contrib.staticfiles",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [{
    "BACKEND": "django.template.backends.django.DjangoTemplates",
    "APP_DIRS": True,
    "OPTIONS": {"context_processors": [
        "django.template.context_processors.request",
        "django.contrib.auth.context_processors.auth",
        "django.contrib.messages.context_processors.messages",
    ]},
}]
STATIC_URL = "/static/"
WAGTAIL_SITE_NAME = "wheel"
WAGTAILADMIN_BASE_URL = "https://www.example.com"
DRAMATIQ_BROKER = {"BROKER": "dramatiq.brokers.stub.StubBroker", "OPTIONS": {}, "MIDDLEWARE": []}
WAGTAIL_INDEXNOW = {"ENABLED": True, "DRY_RUN": True, "SETTLE_SECONDS": 0}
"""
URLS = """
from django.urls import include, path
from wagtail import urls as wagtail_urls
from wagtail.admin import urls as wagtailadmin_urls

urlpatterns = [
    path("", include("wagtail_indexnow.urls")),
    path("admin/", include(wagtailadmin_urls)),
    path("", include(wagtail_urls)),
]
"""
SMOKE = """
import django
django.setup()
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from wagtail.models import Page, Site
from wagtail_indexnow.submission import keys
from wagtail_indexnow.models import TrackedUrl
import wagtail_indexnow

assert "site-packages" in wagtail_indexnow.__file__, wagtail_indexnow.__file__
Site.objects.update(hostname="www.example.com", port=443)
page = Site.objects.get().root_page.add_child(instance=Page(title="News", slug="news", live=False))
page.save_revision().publish()
call_command("indexnow_relay", inline=True)
row = TrackedUrl.objects.get()
assert (row.url, row.reason) == ("https://www.example.com/news/", "dry_run"), vars(row)

key = keys.key_for("www.example.com")
client = Client(headers={"host": "www.example.com"})
assert client.get(f"/{key}.txt").content == key.encode()
client.force_login(get_user_model().objects.create_superuser("admin", password="x"))
for name in ("urls", "submissions", "events", "settings"):
    assert client.get(reverse(f"wagtail_indexnow_admin:{name}")).status_code == 200, name
print("the page was announced, the key file is served, the reports open")
"""


def main(folder: Path) -> None:
    dist, site = folder / "dist", folder / "site"
    site.mkdir(parents=True, exist_ok=True)
    run(sys.executable, "-m", "build", "--outdir", str(dist), str(ROOT), cwd=folder)
    wheel = max(dist.glob("*.whl"), key=lambda path: path.stat().st_mtime)
    look_into(wheel)
    python = make_environment(folder / "empty")
    run(python, "-m", "pip", "install", "--quiet", str(wheel), cwd=folder)
    (site / "settings.py").write_text(SETTINGS)
    (site / "urls.py").write_text(URLS)
    (site / "site.sqlite3").unlink(missing_ok=True)
    run(python, "-m", "django", "check", "--fail-level", "WARNING", cwd=site)
    run(python, "-m", "django", "migrate", "--verbosity", "0", cwd=site)
    run(python, "-c", SMOKE, cwd=site)


def look_into(wheel: Path) -> None:
    """List what the wheel holds, and compare it with the checkout."""
    names = zipfile.ZipFile(wheel).namelist()
    sys.stdout.write("\n".join([*sorted(names), ""]))
    missing = [name for name in (*WANTED, *shipped_data()) if name not in names]
    strange = [name for name in names if name.startswith(UNWANTED)]
    if missing or strange:
        sys.exit(f"{wheel.name}: missing {missing}, unwanted {strange}")


def shipped_data() -> list[str]:
    """Return the data files of the checkout that must be in the wheel."""
    package = ROOT / "wagtail_indexnow"
    files = (path for folder in DATA_FOLDERS for path in (package / folder).rglob("*"))
    return [str(path.relative_to(ROOT)) for path in files if path.is_file()]


def make_environment(folder: Path) -> str:
    venv.create(folder, with_pip=True, clear=True)
    return str(folder / "bin" / "python")


def run(*command: str, cwd: Path) -> None:
    # No path of ours: only what was installed may be found, and the site itself.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["DJANGO_SETTINGS_MODULE"] = "settings"
    if cwd.name == "site":
        environment["PYTHONPATH"] = str(cwd)
    subprocess.run(command, cwd=cwd, env=environment, check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
