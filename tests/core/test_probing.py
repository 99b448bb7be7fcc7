"""What it costs to look how far a replay comes."""

from __future__ import annotations

from django_durable.core.flow.lease import Lease
from django_durable.core.flow.run_info import RunInfo
from django_durable.core.journal.journal import Entry, MemoryJournal
from django_durable.core.probing import Probe

from .driving import RUN_ID, TOKEN


class CountedJournal(MemoryJournal):
    readings = 0

    def under(self, scope: str) -> list[Entry]:
        self.readings += not scope
        return super().under(scope)


def test_the_whole_journal_is_read_once_however_many_scopes_there_are() -> None:
    journal = CountedJournal()
    probe = Probe(RunInfo(RUN_ID, "shop.order"), journal, Lease(RUN_ID, TOKEN, float("inf")))
    before = journal.readings
    probe.part("items[0]").part("block")
    assert journal.readings == before
