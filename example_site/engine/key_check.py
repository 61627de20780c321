"""Does the key file answer exactly the key? (M8, M9)"""

from dataclasses import dataclass

from example_site.engine.fetching import Fetched, FetchError, UnmappedHostError, fetch
from example_site.engine.hosts import HostMap
from example_site.engine.profiles import Profile

BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, kw_only=True)
class KeyCheckResult:
    """``rule`` is the broken rule, empty if the key is proved. ``content_type`` is only noted."""

    rule: str = ""
    reason: str = ""
    content_type: str = ""


def check_key_file(location: str, key: str, host_map: HostMap, profile: Profile) -> KeyCheckResult:
    """Fetch the key file through the map and compare it with the key."""
    try:
        fetched = fetch(
            location,
            host_map,
            timeout_s=profile.key_file_timeout_s,
            limit=profile.key_file_max_bytes,
            follow=profile.follow_redirects,
        )
    except UnmappedHostError as error:
        return KeyCheckResult(rule="M8", reason=f"The host {error} is not in the map.")
    except FetchError as error:
        return KeyCheckResult(rule="M9", reason=f"The key file cannot be loaded: {error}")
    reason = fault_in(fetched, key, profile)
    return KeyCheckResult(
        rule="M9" if reason else "",
        reason=reason,
        content_type=fetched.headers.get("content-type", ""),
    )


def fault_in(fetched: Fetched, key: str, profile: Profile) -> str:
    """Return why an answer does not prove the key; empty if it does."""
    if fetched.status != 200:
        return f"The key file answered {fetched.status}, not 200."
    if len(fetched.body) > profile.key_file_max_bytes:
        return f"The key file is longer than {profile.key_file_max_bytes} bytes."
    if fetched.body.startswith(BOM):
        return "The key file starts with a byte order mark."
    if fetched.body.lstrip().startswith(b"<"):
        return "The key file is HTML."
    body = fetched.body.rstrip(b"\r\n") if profile.newline_tolerant else fetched.body
    if body != key.encode("ascii"):
        return "The key file does not hold exactly the key."
    return ""
