"""The site's page model."""

from functools import cache
from typing import Any

import swapper


@cache
def page_model() -> Any:
    """Return the site's base page model, which Wagtail 8 lets a project swap."""
    return swapper.load_model("wagtailcore", "Page")


def lineage(path: str) -> list[str]:
    """Return the tree paths from the root down to a page, itself included."""
    step = page_model().steplen
    return [path[:end] for end in range(step, len(path) + 1, step)]
