"""Who lost a race, as its entry tells: whatever the winner returned."""

from __future__ import annotations

import pytest

from django_durable.core.journal.journal import Entry
from django_durable.core.journal.losers import is_lost, races_lost, winner_of
from django_durable.core.journal.states import EntryStatus, Kind
from django_durable.core.payloads.codec import encode


def race(path: str, value: str | None, status: EntryStatus = EntryStatus.SUCCEEDED) -> Entry:
    return Entry(path, Kind.RACE, status, value=value)


@pytest.mark.parametrize("name", ["plain", 'a "quoted" \\ one', "\U0001f600", "[1]", "ü/%"])
def test_the_winner_is_known_where_nobody_knows_the_type_of_what_it_returned(name: str) -> None:
    unknown = '{"$":"@of.another.release","v":{}}'
    assert winner_of(race("any", f"[{encode(name)},{unknown}]")) == name


@pytest.mark.parametrize("value", [None, "", "[", "null", "{}", '[{"$":"set","v":[]},1]', "[1,2]", '["half'])
def test_of_a_damaged_race_nobody_is_known_to_have_won_it(value: str | None) -> None:
    assert winner_of(race("any", value)) is None
    assert not is_lost("any/a/step", {"any": race("any", value)}.get)


def test_a_race_that_is_open_or_failed_or_none_has_no_winner() -> None:
    assert winner_of(None) is None
    assert winner_of(race("any", '["a","b"]', EntryStatus.OPEN)) is None
    assert winner_of(race("any", '["a","b"]', EntryStatus.FAILED)) is None
    assert winner_of(Entry("any", Kind.STEP, EntryStatus.SUCCEEDED, value='["a",1]')) is None


def test_who_lost_in_which_races() -> None:
    races = {
        entry.path: entry for entry in (race("out", '["a",1]'), race("out/b/in", '["x",1]'), race("key[1]", '["a",1]'))
    }
    assert list(races_lost("out/b/in/y/step", races.get)) == ["out", "out/b/in"]
    assert list(races_lost("out/b/in/x/step", races.get)) == ["out"]
    assert not is_lost("out/a/in/y/step", races.get)
    assert not is_lost("out[1]/b/step", races.get)
    assert is_lost("key[1]/b/step", races.get)
