"""The pytest plugin: ``run_until_idle`` and ``durable_clock`` as fixtures. Loaded in every project; asks for nothing.

Only pytest is imported here: the rest waits until a test asks for a fixture, which needs a configured Django.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .travelling import TravelClock


@pytest.fixture
def durable_clock() -> Iterator[TravelClock]:
    """The clock of a ``travel()`` block around the test: ``durable_clock.advance(hours=2)``."""
    _require_django()
    from .travelling import travel

    with travel() as clock:
        yield clock


@pytest.fixture
def run_until_idle(request: pytest.FixtureRequest) -> Callable[..., int]:
    """``django_durable.testing.run_until_idle``; with pytest-django it brings the database, as ``db`` does."""
    _require_django()
    from .running import run_until_idle as function

    if request.config.pluginmanager.hasplugin("django"):
        request.getfixturevalue("db")
    return function


def _require_django() -> None:
    from django.conf import settings

    if not settings.configured and not os.environ.get("DJANGO_SETTINGS_MODULE"):
        pytest.skip("django_durable needs Django's settings: set DJANGO_SETTINGS_MODULE")
