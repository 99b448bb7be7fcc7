"""Evidence for tests of the checker."""

from __future__ import annotations

import pytest

from tests.chaos.making import Making
from tests.chaos.planting import FAILING, ONE_STEP, PROGRAM


@pytest.fixture
def making() -> Making:
    """Some runs that went well, beside which something is planted."""
    making = Making()
    making.run("fine", PROGRAM)
    making.run("failing", FAILING)
    making.run("keyed", ONE_STEP, key="k")
    making.enqueue("keyed", key="k")
    return making
