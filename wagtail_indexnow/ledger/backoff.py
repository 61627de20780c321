"""How long to wait before the next attempt."""

from datetime import timedelta

RETRY_DELAYS = (timedelta(seconds=60), timedelta(seconds=300), timedelta(seconds=900))
RETRY_DELAY_MAX = timedelta(hours=1)


def retry_delay(attempts: int) -> timedelta:
    """Return the pause after the given number of failures: 60, 300, 900 s, then hourly."""
    return RETRY_DELAYS[attempts - 1] if attempts <= len(RETRY_DELAYS) else RETRY_DELAY_MAX
