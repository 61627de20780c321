"""What is kept of a fault of a site's own code."""

from wagtail_indexnow.exceptions import describe


def test_r65_a_fault_is_kept_as_every_database_takes_it() -> None:
    """R65: PostgreSQL refuses NUL, and UTF-8 has no half of a character."""
    text = describe(ValueError("a\0b\ud800c\x1b[31m " + "x" * 5_000))

    assert text.startswith("ValueError: a b c [31m x")
    assert len(text) == 2_000
    assert text.encode().isascii()
