"""docs/state-machine.md says what the code does: its words, and every transition that the store's tests know."""

from __future__ import annotations

from collections import defaultdict

import pytest

from django_durable.core.journal.states import TERMINAL, BlockReason, EntryStatus, Kind, Status
from tests.app.workflows import doubling
from tests.docs.reading import ROOT, blocks, codes, table

STATES = ROOT / "docs" / "state-machine.md"


def test_statuses_are_those_of_the_code() -> None:
    rows = table(STATES, "status", "means", "over")
    assert [codes(row["status"])[0] for row in rows] == list(Status)
    assert {codes(row["status"])[0] for row in rows if row["over"] == "yes"} == TERMINAL
    diagram = next(block.text for block in blocks(STATES))
    assert [status for status in Status if status not in diagram] == []


def test_words_are_those_of_the_code() -> None:
    def first_column(*columns: str) -> list[str]:
        return [codes(row[columns[0]])[0] for row in table(STATES, *columns)]

    assert first_column("`block_reason`", "means", "goes on") == list(BlockReason)
    assert first_column("kind", "written by") == list(Kind)
    assert first_column("entry's status", "means") == list(EntryStatus)


def documented_transitions() -> dict[tuple[str, str], set[str]]:
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in table(STATES, "from", "to", "when", "by"):
        if row["from"] != "(new)":
            found[codes(row["from"])[0], codes(row["to"])[0]] |= set(codes(row["by"]))
    return found


def transitions_of_the_store() -> dict[tuple[str, str], set[str]]:
    """From the store's own test, which tries every transition on every status."""
    from tests.store.test_transitions import TABLE

    header, *lines = [line.split() for line in TABLE.splitlines() if line.strip()]
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for name, *cells in lines:
        for before, after in zip(header, cells, strict=True):
            if after in set(Status) - {before}:
                found[before, after].add(name)
    return found


def test_transitions_are_those_of_the_code() -> None:
    documented, tested = documented_transitions(), transitions_of_the_store()
    assert documented.keys() == tested.keys()
    for pair, names in documented.items():
        # The store's test has variants: complete_cancelling is a complete.
        unnamed = {variant for variant in tested[pair] if not any(is_variant(variant, name) for name in names)}
        unused = {name for name in names if not any(is_variant(variant, name) for variant in tested[pair])}
        assert (unnamed, unused) == (set(), set()), pair


def is_variant(variant: str, name: str) -> bool:
    return variant == name or variant.startswith(f"{name}_")


@pytest.mark.django_db
def test_runs_begin_as_documented() -> None:
    begun = {doubling.enqueue(1).status, doubling.using(run_after=60).enqueue(1).status}
    rows = table(STATES, "from", "to", "when", "by")
    assert begun == {codes(row["to"])[0] for row in rows if row["from"] == "(new)"}
