from __future__ import annotations

import pytest

from tests.client import orders


@pytest.fixture(autouse=True)
def _fresh_orders() -> None:
    orders.calls.clear()
    orders.is_broken[:] = [True]
