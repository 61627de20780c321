"""Settings of the benchmarks: a database as the documentation asks of a site, nothing relaxed."""

from tests.acceptance.settings import *  # noqa: F403
from tests.acceptance.settings import DATABASES

if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    # The tests do without the disk. A site's commits reach it, and what they cost is asked here.
    DATABASES["default"]["OPTIONS"]["init_command"] = "PRAGMA journal_mode=WAL"
