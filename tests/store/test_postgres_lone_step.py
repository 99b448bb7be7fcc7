"""The commit of one step of one run is written with less ado, and comes to the same as any other."""

from __future__ import annotations

import logging
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import transaction
from django.test.utils import CaptureQueriesContext

from django_durable.core.journal.journal import Entry, Write
from django_durable.core.journal.log import Log, Logged
from django_durable.core.journal.outcomes import Completed
from django_durable.core.journal.states import EntryStatus, Kind
from django_durable.models import JournalEntry, Run
from django_durable.store import committing
from django_durable.store.committing import write_batch
from django_durable.store.database import Database, PrivateDatabase
from tests.store.conftest import Connect
from tests.store.rows import claim, entries, make_run, new_run, running, stale, step_entry

pytestmark = pytest.mark.django_db(transaction=True)

MOMENT = datetime(2026, 7, 1, 12, 30, tzinfo=UTC)
FIELDS = ("path", "seq", "kind", "status", "attempts", "value", "error", "wake_at", "awaits", "undo")


@pytest.fixture
def briefly(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each commit of one run whether it was written as a lone step."""
    found: list[bool] = []
    write_step = committing.write_step

    def told(*given: Any) -> Any:
        receipt = write_step(*given)
        found.append(receipt is not None)
        return receipt

    monkeypatch.setattr(committing, "write_step", told)
    return found


def new(**more: Any) -> Entry:
    return replace(step_entry(), is_new=True, **more)


@pytest.mark.parametrize(
    "entry",
    [
        new(),
        new(value=None),
        new(seconds=12.5),
        new(value=None, seconds=1e-07),
        new(path="a 'quoted' \"path\" \\ %s ü \U0001f600", seq=70_000, attempts=3, kind=Kind.LOOP),
        new(status=EntryStatus.RETRYING),
    ],
    ids=["step", "no value", "seconds", "both", "text", "goes on"],
)
def test_it_is_what_it_is_in_company(db: PrivateDatabase, briefly: list[bool], entry: Entry) -> None:
    claims = claim(db, *(make_run() for _ in range(3)))
    alone, *company = ((one.lease, Write(entries(replace(entry)))) for one in claims)
    first = write_batch(db, [alone])[claims[0].run_id]
    second = write_batch(db, company)[claims[1].run_id]
    assert briefly == [True]
    assert first == second
    assert first.is_held
    rows = [JournalEntry.objects.get(run_id=one.run_id) for one in claims]
    assert len({tuple(getattr(row, name) for name in FIELDS) for row in rows}) == 1
    for row, one in zip(rows, claims, strict=True):
        assert row.token == one.lease.token
        taken = None if row.finished_at is None else (row.finished_at - row.started_at).total_seconds()
        assert taken == (None if entry.status == EntryStatus.RETRYING else pytest.approx(entry.seconds or 0, abs=1e-5))


@pytest.mark.parametrize("column", ["cancel_requested_at", "pause_requested_at"])
def test_it_hears_what_was_asked_of_the_run(db: PrivateDatabase, briefly: list[bool], column: str) -> None:
    mine = running(db)
    Run.objects.update(**{column: MOMENT})
    receipt = write_batch(db, [(mine.lease, Write(entries(new())))])[mine.run_id]
    assert (receipt.cancelling, receipt.pausing) == (column.startswith("cancel"), column.startswith("pause"))
    assert briefly == [True]


def test_a_lease_that_is_not_ours_writes_nothing(db: PrivateDatabase) -> None:
    mine = running(db)
    with CaptureQueriesContext(db.connection) as queries:  # type: ignore[arg-type]
        receipt = write_batch(db, [(stale(mine.lease), Write(entries(new())))])[mine.run_id]
    # The fence, and whose the run is.
    assert len(queries) == 2
    assert (receipt.is_lost, receipt.is_held, JournalEntry.objects.count()) == (True, False, 0)


def test_a_row_that_somebody_holds_is_not_waited_for(db: PrivateDatabase, connect: Connect) -> None:
    mine, other = running(db), connect()
    with other.transaction():
        other.rows("SELECT 1 FROM django_durable_run WHERE id = %(id)s FOR UPDATE", id=mine.run_id)
        receipt = write_batch(db, [(mine.lease, Write(entries(new())))])[mine.run_id]
    assert (receipt.is_lost, receipt.is_held, JournalEntry.objects.count()) == (False, False, 0)


def test_what_is_there_already_is_written_over(db: PrivateDatabase, briefly: list[bool]) -> None:
    mine = running(db)
    for value in ("1", "2"):
        assert write_batch(db, [(mine.lease, Write(entries(new(value=value))))])[mine.run_id].is_held
    assert briefly == [True, False]
    assert JournalEntry.objects.get().value == "2"


@pytest.mark.parametrize(
    "write",
    [
        Write(entries(step_entry())),
        Write({}, progress="{}"),
        Write(entries(new(), new(path="two"))),
        Write(entries(new(error="{}"))),
        Write(entries(new(undo=True))),
        Write(entries(new(wake_after=5.0, status=EntryStatus.RETRYING))),
        Write(entries(new()), outcome=Completed("1")),
        Write(entries(new()), progress="{}"),
        Write(entries(new()), notes={"a": "1"}),
        Write(entries(new()), forgotten=frozenset({"gone"})),
        Write(entries(new()), unwanted=["child"]),
        Write(entries(new()), consumed={1: "event"}),
        Write(entries(new()), answers={"event": "1"}),
        Write(entries(new()), children=[new_run()]),
        Write(entries(new()), log=Log([Logged(logging.INFO, "line", MOMENT, "", place=1)])),
    ],
    ids=[
        "not new",
        "no entry",
        "two",
        "error",
        "undo",
        "wakes",
        "outcome",
        "progress",
        "notes",
        "forgotten",
        "unwanted",
        "consumed",
        "answers",
        "children",
        "log",
    ],
)
def test_whatever_else_there_is_is_written_with_it(db: PrivateDatabase, briefly: list[bool], write: Write) -> None:
    mine = running(db)
    for child in write.children:
        child.parent_id = mine.run_id
    assert write_batch(db, [(mine.lease, write)])[mine.run_id].is_held
    assert briefly == [False]
    assert JournalEntry.objects.count() == len(write.entries)


def test_a_suspect_is_cleared_by_it(db: PrivateDatabase, briefly: list[bool]) -> None:
    mine = running(db)
    Run.objects.update(suspect=True, crashes=1)
    mine.lease.is_suspect = True
    assert write_batch(db, [(mine.lease, Write(entries(new())))])[mine.run_id].is_held
    assert (briefly, mine.lease.is_suspect, Run.objects.get().suspect) == ([False], False, False)


def test_where_a_transaction_is_open_nothing_may_fail_in_it(db: PrivateDatabase, briefly: list[bool]) -> None:
    mine = running(db)
    with transaction.atomic():
        for value in ("1", "2"):
            assert write_batch(Database(), [(mine.lease, Write(entries(new(value=value))))])[mine.run_id].is_held
    assert briefly == [False, False]
    assert JournalEntry.objects.get().value == "2"


def test_it_knows_all_that_a_write_and_an_entry_may_have() -> None:
    """What is added to them has to be written here too, or is to be left to the others."""
    assert {field.name for field in fields(Write)} == {
        "entries",
        "children",
        "consumed",
        "answers",
        "progress",
        "notes",
        "log",
        "forgotten",
        "unwanted",
        "outcome",
    }
    assert {field.name for field in fields(Entry)} == {
        "path",
        "kind",
        "status",
        "seq",
        "attempts",
        "value",
        "error",
        "started_at",
        "wake_at",
        "wake_after",
        "awaits",
        "undo",
        "seconds",
        "max_attempts",
        "is_new",
    }
