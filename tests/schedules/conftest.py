from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from django_durable.core import clock
from tests.schedules.noon import just_before_noon


@pytest.fixture(autouse=True)
def _unmoved_clock() -> Iterator[None]:
    yield
    clock.set_offset(timedelta(0))


@pytest.fixture
def before_noon() -> None:
    just_before_noon()
