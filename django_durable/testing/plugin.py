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


def pytest_configure(config: pytest.Config) -> None:
    has_pytest_django = config.pluginmanager.hasplugin("django")
    config.pluginmanager.register(WithDatabase() if has_pytest_django else WithoutDatabase(), "durable-run-until-idle")


@pytest.fixture
def durable_clock() -> Iterator[TravelClock]:
    """The clock of a ``travel()`` block around the test: ``durable_clock.advance(hours=2)``."""
    _require_django()
    from .travelling import travel

    with travel() as clock:
        yield clock


class WithDatabase:
    """The fixture where pytest-django is loaded."""

    # By name in the signature: pytest-django makes the databases of which it reads in signatures and marks, before
    # any fixture runs. A test that only asked for one later would work on the project's own database.
    @pytest.fixture
    def run_until_idle(self, db: None) -> Callable[..., int]:
        """``django_durable.testing.run_until_idle``, with the database, as ``db`` brings it."""
        return _function()


class WithoutDatabase:
    """The fixture where pytest-django is not loaded: whoever sets Django up brings the database."""

    @pytest.fixture
    def run_until_idle(self) -> Callable[..., int]:
        """``django_durable.testing.run_until_idle``."""
        return _function()


def _function() -> Callable[..., int]:
    _require_django()
    from .running import run_until_idle

    return run_until_idle


def _require_django() -> None:
    from django.conf import settings

    if not settings.configured and not os.environ.get("DJANGO_SETTINGS_MODULE"):
        pytest.skip("django_durable needs Django's settings: set DJANGO_SETTINGS_MODULE")
