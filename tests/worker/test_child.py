"""What a child of the supervisor does to its own process."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from django_durable.worker.child import YOUNG_OBJECTS, _collect_less_often


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.parametrize(("set_to", "becomes"), [(700, YOUNG_OBJECTS), (0, 0), (2 * YOUNG_OBJECTS, 2 * YOUNG_OBJECTS)])
def test_young_objects_are_looked_through_less_often_unless_the_project_has_its_say(set_to: int, becomes: int) -> None:
    gc.set_threshold(set_to, 7, 8)
    _collect_less_often()
    assert gc.get_threshold() == (becomes, 7, 8)
