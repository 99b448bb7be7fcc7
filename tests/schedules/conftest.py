from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from django_durable.core import clock


@pytest.fixture(autouse=True)
def _unmoved_clock() -> Iterator[None]:
    yield
    clock.set_offset(timedelta(0))
