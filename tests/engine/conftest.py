"""An engine, a site with a key file and a client, for each test; nothing is shared."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from example_site.engine.profiles import PROFILES
from example_site.engine.selftest import Bench, bench

Start = Callable[..., Bench]


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that starts an engine: profile, then overrides of its fields."""
    with ExitStack() as stack:
        yield lambda profile="lenient", **overrides: stack.enter_context(
            bench(profile, **overrides)
        )


@pytest.fixture(params=list(PROFILES))
def profile(request: pytest.FixtureRequest) -> str:
    """Run the test once per profile."""
    return str(request.param)
