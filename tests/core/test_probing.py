"""What it costs to look how far a replay comes."""

from __future__ import annotations

import pytest

from django_durable.core.flow.lease import Lease
from django_durable.core.flow.run_info import RunInfo
from django_durable.core.journal.journal import Entry, MemoryJournal
from django_durable.core.journal.states import EntryStatus, Kind
from django_durable.core.probing import Probe

from .driving import RUN_ID, TOKEN


class CountedJournal(MemoryJournal):
    readings = 0
    found = 0

    def under(self, scope: str) -> list[Entry]:
        self.readings += not scope
        return super().under(scope)

    def find(self, path: str) -> Entry | None:
        self.found += 1
        return super().find(path)


def test_the_whole_journal_is_read_once_however_many_scopes_there_are() -> None:
    journal = CountedJournal()
    probe = Probe(RunInfo(RUN_ID, "shop.order"), journal, Lease(RUN_ID, TOKEN, float("inf")))
    before = journal.readings
    probe.part("items[0]").part("block")
    assert journal.readings == before


@pytest.mark.parametrize("around", ["map", "join"])
def test_what_lies_behind_what_is_tried_again_is_found_once_for_each_entry(around: str) -> None:
    """Of many branches that are tried again, each with something behind."""
    journal, count = CountedJournal(), 200
    journal.add(Entry("at", Kind(around), EntryStatus.OPEN))
    tried = [f"at[{number}]/a" if around == "map" else f"at/{number}/a" for number in range(count)]
    for path in tried:
        journal.add(Entry(path, Kind.STEP, EntryStatus.RETRYING, error="{}"))
        journal.add(Entry(f"{path[:-1]}b", Kind.STEP, EntryStatus.SUCCEEDED, value="1"))
    journal.add(Entry("before", Kind.STEP, EntryStatus.SUCCEEDED, value="1", seq=0))
    probe = Probe(RunInfo(RUN_ID, "shop.order"), journal, Lease(RUN_ID, TOKEN, float("inf")))
    for path in ["at", *tried]:
        probe.find(path, journal.entries[path].kind)
    journal.entries["before"].seq, journal.found = 0, 0
    assert probe.left_out() == ["before"]
    assert journal.found <= 10 * count


def test_in_whatever_order_the_code_comes_by_them_what_lies_behind_the_first_is_found() -> None:
    journal = MemoryJournal()
    for path in ("before", "a", "behind", "b", "c"):
        status = EntryStatus.RETRYING if len(path) == 1 else EntryStatus.SUCCEEDED
        journal.add(Entry(path, Kind.STEP, status, error="{}"))
    probe = Probe(RunInfo(RUN_ID, "shop.order"), journal, Lease(RUN_ID, TOKEN, float("inf")))
    for path in "cba":
        probe.find(path, Kind.STEP)
    assert probe.left_out() == ["before"]


def test_what_lies_beside_one_and_behind_another_is_behind() -> None:
    journal = MemoryJournal()
    journal.add(Entry("at", Kind.JOIN, EntryStatus.OPEN))
    for path, status in {
        "at/a/x": EntryStatus.RETRYING,
        "x": EntryStatus.RETRYING,
        "at/b/y": EntryStatus.SUCCEEDED,
    }.items():
        journal.add(Entry(path, Kind.STEP, status, error="{}"))
    probe = Probe(RunInfo(RUN_ID, "shop.order"), journal, Lease(RUN_ID, TOKEN, float("inf")))
    for path in ("at", "at/a/x"):
        probe.find(path, journal.entries[path].kind)
    assert probe.left_out() == ["at/b/y"]
    probe.find("x", Kind.STEP)
    assert probe.left_out() == []
