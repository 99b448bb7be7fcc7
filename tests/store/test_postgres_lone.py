"""What a run commits alone goes to the statement as parameters: it comes to the same as in company."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from django.db import DataError
from psycopg import _queries

from django_durable.core.flow.lease import Lease
from django_durable.core.journal.journal import Entry, Write
from django_durable.core.journal.log import Log, Logged
from django_durable.core.journal.outcomes import Blocked, Cancelled, Completed, Ending, Failed, Outcome, Released
from django_durable.core.journal.states import BlockReason, EntryStatus, Kind, Phase
from django_durable.models import JournalEntry, LogLine, Payload, Run
from django_durable.store.committing import write_batch
from django_durable.store.database import Database, PrivateDatabase, Row, as_json
from django_durable.store.dialects.postgresql import PostgreSQL
from django_durable.store.lone import Lone, add_parameters
from django_durable.store.sql.commits import ENTRY, LEAVING, PAYLOAD
from django_durable.store.sql.leases import CLAIM, ours
from tests.store.rows import claim, entries, make_run, stale, status_of, step_entry

pytestmark = pytest.mark.django_db(transaction=True)

ID, TOKEN = str(UUID(int=1)), str(UUID(int=2))
MOMENT = datetime(2026, 7, 1, 12, 30, tzinfo=UTC)
ERROR = {"type": "ValueError", "message": "no", "traceback": ""}
TEXT = "a 'quoted' \"path\" \\ %s %(name)s ü \u2028 \U0001f600"
FULL: dict[str, Any] = {
    "run_id": ID,
    "path": TEXT,
    "seq": 70_000,
    "kind": "step",
    "status": "retrying",
    "attempts": 3,
    "value": '"\\u0000"',
    "error": "{}",
    "seconds": 1e-07,
    "wake_at": MOMENT.isoformat(),
    "wake_after": 0.0,
    "awaits": "first\nsecond",
    "undo": True,
}
LEFT = {"run_id": ID, "status": "blocked", "block_reason": "diverged", "fingerprint": TEXT, "phase": "forward"}


@pytest.mark.parametrize("is_private", [True, False], ids=["private", "django"])
@pytest.mark.parametrize(
    ("columns", "row"),
    [
        (CLAIM, {"id": ID, "token": TOKEN}),
        (ENTRY, FULL),
        (ENTRY, {"run_id": ID, "path": "p", "seq": 1, "kind": "step", "status": "succeeded", "attempts": 0}),
        (PAYLOAD, {"run_id": ID, "kind": "output", "data": TEXT}),
        (LEAVING, {**LEFT, "undoes": True}),
        (LEAVING, {"run_id": ID, "status": "succeeded", "block_reason": None, "undoes": None}),
    ],
    ids=["claim", "entry", "bare entry", "payload", "leaving", "ending"],
)
def test_a_row_of_parameters_is_what_its_json_is(
    db: PrivateDatabase, columns: dict[str, str], row: dict[str, Any], is_private: bool
) -> None:
    asked = db if is_private else Database()
    parameters: dict[str, Any] = {}
    shape = add_parameters(parameters, "given", row)

    def select(d: PostgreSQL) -> str:
        return f"SELECT {', '.join(f's.{name}' for name in columns)} FROM {d.recordset('given', 's', columns)}"

    alone = asked.rows(select(Lone({"given": shape})), **parameters)
    assert alone == asked.rows(select(PostgreSQL()), given=as_json([row]))
    assert len(alone) == 1


def test_a_set_without_a_shape_is_json_as_ever() -> None:
    lone = Lone({"entries": ("path",)})
    assert lone.recordset("claims", "i", CLAIM) == PostgreSQL().recordset("claims", "i", CLAIM)


def test_a_claim_that_is_parameters_is_named_once() -> None:
    """To name its run again, as an array, is for a planner that would take a set for a hundred rows."""
    assert ours(Lone({"claims": ("id", "token")})).endswith("WHERE r.lease_token = i.token")
    assert ours(Lone({"entries": ("path",)})) == ours(PostgreSQL())
    assert "ANY(ARRAY" in ours(PostgreSQL())


def said(message: str) -> Log:
    return Log([Logged(logging.INFO, message, MOMENT, "", place=1)])


def stored(run: Run) -> dict[str, list[Row]]:
    """All that is stored of a run, but for what is its own: ids, tokens and instants."""
    columns = {
        JournalEntry: ("path", "seq", "kind", "status", "attempts", "value", "error", "awaits", "undo"),
        Payload: ("kind", "data"),
        LogLine: ("number", "level", "message"),
    }
    found = {
        model.__name__: list(model.objects.filter(run_id=run.pk).values_list(*names).order_by(names[0]))
        for model, names in columns.items()
    }
    fields = ("status", "phase", "block_reason", "fingerprint", "suspect", "crashes", "attempt")
    [row] = Run.objects.filter(pk=run.pk).values_list(*fields, "finished_at", "lease_token", "queued_at")
    *plain, finished_at, token, queued_at = row
    found["Run"] = [(*plain, finished_at is None, token is None, queued_at == run.queued_at)]
    return found


@pytest.mark.parametrize("is_cancelled", [False, True], ids=["", "cancelled"])
@pytest.mark.parametrize(
    "outcome",
    [
        None,
        Completed('"done"'),
        Completed('"done"', unvisited=("gone",)),
        Completed('"done"', undoes=True),
        Failed(ERROR),
        Ending(Phase.COMPENSATING, ERROR),
        Cancelled(None),
        Cancelled(ERROR),
        Released(),
        Blocked(BlockReason.DIVERGED, "not the same", "print", False),
    ],
    ids=lambda outcome: type(outcome).__name__,
)
@pytest.mark.parametrize(
    ("steps", "more"),
    [(0, {}), (1, {}), (2, {}), (1, {"progress": "{}"}), (1, {"log": "hear"})],
    ids=["no step", "a step", "two steps", "progress", "log"],
)
def test_what_is_written_alone_is_what_is_written_in_company(
    db: PrivateDatabase, outcome: Outcome | None, steps: int, more: dict[str, Any], is_cancelled: bool
) -> None:
    def write() -> Write:
        given = {"log": said(more["log"])} if "log" in more else more
        made = [Entry(TEXT, Kind.STEP, EntryStatus.FAILED, seq=1, attempts=2, error="{}", undo=True), step_entry("two")]
        return Write(entries(*made[:steps]), outcome=outcome, **given)

    runs = [make_run() for _ in range(3)]
    claims = claim(db, *runs)
    if is_cancelled:
        Run.objects.update(cancel_requested_at=MOMENT)
    alone, *company = claims
    receipts = write_batch(db, [(alone.lease, write())])
    receipts |= write_batch(db, [(one.lease, write()) for one in company])
    first, second, third = (receipts[one.run_id] for one in claims)
    assert (first.is_held, first.status, first.cancelling) == (second.is_held, second.status, second.cancelling)
    assert len(first.ready) == len(second.ready) == len(third.ready)
    assert stored(runs[0]) == stored(runs[1]) == stored(runs[2])


def test_alone_too_a_stale_token_writes_nothing(db: PrivateDatabase) -> None:
    run = make_run()
    [claimed] = claim(db, run)
    write = Write(entries(step_entry()), outcome=Completed("1"))
    assert write_batch(db, [(stale(claimed.lease), write)])[run.pk].is_lost
    assert (status_of(run), JournalEntry.objects.count()) == ("running", 0)
    assert write_batch(db, [(claimed.lease, write)])[run.pk].status == "succeeded"


def test_what_the_database_does_not_take_is_refused_alone_too(db: PrivateDatabase) -> None:
    [claimed] = claim(db, make_run())
    for path, error in (("nul \x00", DataError), ("half a pair \ud800", UnicodeEncodeError)):
        with pytest.raises(error):
            write_batch(db, [(claimed.lease, Write(entries(step_entry(path))))])
    assert not JournalEntry.objects.exists()


@pytest.fixture
def sent(db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, set[str]]]:
    """What is sent to the database from now on: each statement, and the names of its parameters."""
    statements: list[tuple[str, set[str]]] = []
    send = db.rows

    def rows(sql: str, **given: Any) -> list[Row]:
        statements.append((sql, set(given)))
        return send(sql, **given)

    monkeypatch.setattr(db, "rows", rows)
    return statements


def test_who_is_alone_sends_parameters_and_who_is_not_sends_json(
    db: PrivateDatabase, sent: list[tuple[str, set[str]]]
) -> None:
    alone, *company = (one.lease for one in claim(Database(), *(make_run() for _ in range(3))))
    write = Write(entries(step_entry()), outcome=Completed("1"))
    write_batch(db, [(alone, write)])
    write_batch(db, [(one, write) for one in company])
    (lone, lone_parameters), (json, json_parameters) = sent
    assert "json_to_recordset" not in lone
    assert {"c_id", "c_token", "e_path", "p_data", "l_status"} <= lone_parameters
    assert "json_to_recordset" in json
    assert json_parameters == {"claims", "ids", "entries", "payloads", "leaving"}


@pytest.mark.parametrize("logs", [False, True], ids=["silent", "logged"])
def test_a_batch_tells_each_what_became_of_it(db: PrivateDatabase, logs: bool) -> None:
    """Of those that leave and of those that stay, whoever was asked for what."""
    claims = claim(Database(), *(make_run() for _ in range(6)))
    over, cancelled, stays, stops, rests, lost = (one.lease for one in claims)
    Run.objects.filter(pk__in=[cancelled.run_id, stops.run_id]).update(cancel_requested_at=MOMENT)
    Run.objects.filter(pk=rests.run_id).update(pause_requested_at=MOMENT)
    step, end = Write(entries(step_entry())), Write(entries(step_entry()), outcome=Completed("1"))
    writes = [(over, end), (cancelled, end), (stays, step), (stops, step), (rests, step), (stale(lost), end)]
    if logs:
        writes = [(lease, replace(write, log=said("here"))) for lease, write in writes]
    found = write_batch(db, writes)
    told = {run_id: (one.is_held, one.status, one.cancelling, one.pausing) for run_id, one in found.items()}
    assert told == {
        over.run_id: (True, "succeeded", False, False),
        cancelled.run_id: (True, "cancelled", True, False),
        stays.run_id: (True, None, False, False),
        stops.run_id: (True, None, True, False),
        rests.run_id: (True, None, False, True),
        lost.run_id: (False, None, False, False),
    }
    assert found[lost.run_id].is_lost
    assert JournalEntry.objects.count() == 5
    assert LogLine.objects.count() == (5 if logs else 0)


def test_several_rows_of_one_run_are_json_beside_its_parameters(
    db: PrivateDatabase, sent: list[tuple[str, set[str]]]
) -> None:
    [lease] = (one.lease for one in claim(Database(), make_run()))
    write_batch(db, [(lease, Write(entries(step_entry("one"), step_entry("two", seq=2)), outcome=Completed("1")))])
    [(statement, parameters)] = sent
    assert statement.count("json_to_recordset") == 1
    assert {"entries", "c_id", "l_status"} <= parameters


def test_writes_of_one_kind_are_one_statement(db: PrivateDatabase, sent: list[tuple[str, set[str]]]) -> None:
    """Else each would have to be prepared by itself."""
    for number in range(3):
        lease: Lease = claim(Database(), make_run())[0].lease
        for seq, value in enumerate([1, "text", [number]], 1):
            entry = step_entry(f"step {number}/{seq}", value, seq=seq)
            entry.seconds = number / 7
            write_batch(db, [(lease, Write(entries(entry)))])
        write_batch(db, [(lease, Write(entries(step_entry("last")), outcome=Completed(str(number))))])
    assert len(sent) == 12
    assert len({statement for statement, _ in sent}) == 2


def test_the_last_write_of_a_run_is_parsed_once(db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """psycopg parses what is longer, or has more parameters, anew each time: a fifth of what a lone run costs."""
    split = _queries._split_query
    parsed: list[bytes] = []

    def counting(query: bytes, *rest: Any) -> Any:
        parsed.append(query)
        return split(query, *rest)

    monkeypatch.setattr(_queries, "_split_query", counting)
    leases = [one.lease for one in claim(Database(), *(make_run() for _ in range(3)))]
    parsed.clear()
    for one in leases:
        write_batch(db, [(one, Write(entries(step_entry()), outcome=Completed("1")))])
    assert len([query for query in parsed if b"INSERT INTO django_durable_journalentry" in query]) <= 1
    assert JournalEntry.objects.count() == len(leases)


class Noting(PrivateDatabase):
    """Keeps the statements."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def rows(self, sql: str, **parameters: Any) -> list[Row]:
        self.said.append(sql)
        return super().rows(sql, **parameters)


def test_of_new_ones_the_statement_is_ready_for_nothing_else() -> None:
    db = Noting()
    [claimed] = claim(db, make_run())
    db.said.clear()
    for number, is_new in enumerate((True, False)):
        entry = replace(step_entry(f"s{number}"), is_new=is_new)
        write_batch(db, [(claimed.lease, Write(entries(entry)))])
    db.close()
    assert ["ON CONFLICT" in one for one in db.said] == [False, True]
