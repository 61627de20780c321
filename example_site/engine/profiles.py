"""How each engine behaves: status codes, body style, key check, limits."""

from dataclasses import dataclass
from typing import Literal

BodyStyle = Literal["bing", "yandex", "text", "empty"]
KeyCheck = Literal["lazy", "eager"]
PendingAnswer = Literal["accept", "refuse_repeats", "refuse_all"]
RetryAfter = Literal["none", "seconds", "date", "garbage"]


@dataclass(frozen=True, kw_only=True)
class Profile:
    """One engine's choices where engines differ (M2); every field can be overridden.

    Fields ending in ``_s`` are seconds of the engine's clock, ``_bytes`` are bytes; the others
    that hold a bare ``int`` are HTTP status codes or counts. ``None`` as a limit means no limit.
    """

    name: str

    # M3, M4, M7: the codes on which engines disagree.
    missing_field_status: int = 400
    bad_key_status: int = 422
    bad_list_status: int = 422
    too_many_urls_status: int = 422
    malformed_key_location_status: int = 422
    body_style: BodyStyle = "empty"

    max_urls: int = 10_000
    max_body_bytes: int = 16 * 1024 * 1024

    # M9: the key file.
    newline_tolerant: bool = False
    follow_redirects: bool = False
    key_file_timeout_s: float = 3.0
    key_file_max_bytes: int = 1024

    # M10 to M13: when the key is checked and what is remembered.
    key_check: KeyCheck = "eager"
    key_check_delay_s: float = 0.0
    pending_answer: PendingAnswer = "accept"
    positive_cache: bool = True
    negative_cache: bool = False
    bind_key_to_host: bool = False

    # M15, M16: pace. Requests are counted per source address, URLs are not.
    rate_limit: int | None = 5
    rate_window_s: float = 60.0
    day_budget: int | None = None
    retry_after: RetryAfter = "none"
    resubmit_after_s: float = 600.0
    refuse_too_soon: bool = False


PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(
            name="bing",
            bad_list_status=400,
            too_many_urls_status=400,
            malformed_key_location_status=400,
            body_style="bing",
            newline_tolerant=True,
            key_check="lazy",
            negative_cache=True,
        ),
        Profile(
            name="yandex",
            missing_field_status=422,
            body_style="yandex",
            key_check="lazy",
            positive_cache=False,
        ),
        Profile(name="seznam", missing_field_status=422, body_style="text"),
        Profile(name="naver", body_style="empty"),
        # Answers as the shared endpoint does, which runs on Bing's back end.
        Profile(name="lenient", body_style="bing", newline_tolerant=True, rate_limit=None),
    )
}
