"""The checker finds nothing where nothing is wrong, and tells what the tables show by themselves."""

from __future__ import annotations

from tests.chaos.checker import told
from tests.chaos.making import Making
from tests.chaos.planting import ONE_STEP, found


def test_what_went_well_is_no_violation(making: Making) -> None:
    making.enqueue("unheard", moment="unknown")
    making.run("cancelled", ONE_STEP, status="cancelled")
    making.cancel("cancelled")
    assert found(making) == []


def test_what_the_tables_show_by_themselves_is_told(making: Making) -> None:
    making.evidence.invariants.append("I1 run-x: has half a lease")
    assert found(making) == [("invariant", "")]


def test_times_of_the_database_are_made_monotonic(making: Making) -> None:
    assert told(making.evidence).monotonic(1_000_012.5) == 12.5
