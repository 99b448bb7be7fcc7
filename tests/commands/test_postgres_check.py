"""What `durable_check` does to PostgreSQL: sessions that it sees, snapshots that it holds, tables that it reads."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command
from django.db import connection

from django_durable.models import JournalEntry, Payload, Run
from django_durable.store.database import Database, PrivateDatabase
from django_durable.store.invariants import INVARIANTS, Bounds
from django_durable.store.invariants.catalogue import RUNS, SCHEDULES
from django_durable.store.invariants.liveness import MOVEMENTS, Patience, examine_movement
from django_durable.store.invariants.reading import brief_look
from django_durable.store.invariants.terms import Terms
from django_durable.store.sql.invariants import hints, sizes
from tests.commands.checking import sound
from tests.processes import wait_until

pytestmark = pytest.mark.django_db(transaction=True)
[SESSIONS] = [one for one in MOVEMENTS if one.id == "L6"]
AT_ONCE = Patience(bound=0.3, queued=0.3, again=0.3, silence=1.0)
"""What has been so for 0.3 s is late, if it stays so for as long again."""
MANY = 30_000


@pytest.fixture
def other() -> Iterator[PrivateDatabase]:
    db = PrivateDatabase()
    yield db
    db.close()


def seen() -> list[str]:
    return [one.problem for one in examine_movement(Database(), SESSIONS, Bounds(), AT_ONCE).violations]


def test_a_session_of_ours_that_is_idle_in_a_transaction(other: PrivateDatabase) -> None:
    sound()
    assert seen() == []
    with other.transaction():
        other.rows("SELECT id FROM django_durable_run")
        [(pid,)] = other.rows("SELECT pg_backend_pid() FROM django_durable_run")
        [problem] = wait_until(seen)
        assert re.fullmatch(rf"the session {pid} is idle in a transaction for \d+ s", problem)
    assert seen() == []


def test_a_session_of_somebody_else_may_be(other: PrivateDatabase) -> None:
    with other.transaction():
        other.rows("SELECT 1")
        idle = "SELECT 1 FROM pg_stat_activity WHERE state = 'idle in transaction' AND pid <> pg_backend_pid()"
        wait_until(lambda: Database().rows(f"{idle} AND state_change < clock_timestamp() - interval '0.4 s'"))
        assert seen() == []


def test_a_session_of_ours_that_waits_for_a_lock(other: PrivateDatabase) -> None:
    sound()
    lock, waiter = "SELECT id FROM django_durable_run FOR UPDATE", PrivateDatabase()
    waiting = threading.Thread(target=waiter.rows, args=[lock])
    with other.transaction():
        other.rows(lock)
        # What this session was asked last is none of ours.
        other.rows("SELECT 1")
        waiting.start()
        [problem] = wait_until(seen)
        assert re.fullmatch(r"the session \d+ waits for a lock for \d+ s", problem)
    waiting.join()
    waiter.close()
    assert seen() == []


def test_it_holds_no_snapshot_from_one_window_to_the_next(other: PrivateDatabase) -> None:
    """Each look is a transaction of its own that writes nothing and sees one moment."""
    with brief_look(Database(), 10.0):
        settings = "current_setting('transaction_read_only'), current_setting('transaction_isolation')"
        assert Database().rows(f"SELECT {settings}") == [("on", "repeatable read")]
        assert Database().rows("SELECT current_setting('statement_timeout')") == [("10s",)]
    assert not connection.in_atomic_block
    assert Database().rows("SELECT current_setting('statement_timeout')") == [("0",)]


def test_in_a_transaction_of_the_caller_it_leaves_nothing_behind() -> None:
    db = Database()
    with db.transaction():
        run = sound()
        with brief_look(db, 10.0):
            assert db.rows("SELECT current_setting('statement_timeout')") == [("10s",)]
        assert db.rows("SELECT current_setting('statement_timeout')") == [("0",)]
        Run.objects.filter(pk=run.pk).update(priority=3)
    assert Run.objects.get().priority == 3


# --- plans -------------------------------------------------------------------------------------


@pytest.fixture
def many() -> UUID:
    """So many runs that to read all of them for one window is not what a good plan does; the id at their middle."""
    run = sound()
    tables: dict[Any, str] = {Run: "id", JournalEntry: "run_id", Payload: "run_id"}
    with connection.cursor() as cursor:
        for model, key in tables.items():
            table = model._meta.db_table
            columns = [field.column for field in model._meta.concrete_fields if field.column != key]
            names, old = ", ".join(columns), ", ".join(f"o.{name}" for name in columns)
            cursor.execute(
                f"INSERT INTO {table} ({key}, {names}) SELECT md5(n::text)::uuid, {old} "
                f"FROM {table} o CROSS JOIN generate_series(1, {MANY}) AS n WHERE o.{key} = %s",
                [run.pk],
            )
        cursor.execute("ANALYZE")
    return Run.objects.order_by("pk")[MANY // 2].pk


def test_no_window_reads_a_whole_table(many: UUID) -> None:
    db, large = Database(), {"django_durable_run", "django_durable_journalentry", "django_durable_payload"}
    until = UUID(int=many.int + 2**120)
    parameters = {**Terms.now(16.0).parameters, "after": str(many), "until": str(until), "limit": 20}
    parameters |= {"ids": [many], "run": str(many), "place": "", "name": ""}
    read: list[tuple[str, str]] = []
    queries = [(one.id, look.query(db.dialect), look.walks) for one in INVARIANTS for look in one.looks]
    queries += [("I20b", sizes.measure(db.dialect), RUNS), ("I20b", sizes.measure_inputs(db.dialect), SCHEDULES)]
    numbered = {"after": 0, "until": 2**63 - 1}
    for name, query, walks in [*queries, ("I21", hints.there(db.dialect), None)]:
        own = numbered if walks not in (RUNS, None) else {}
        rows = db.rows(f"EXPLAIN (FORMAT JSON) {query}", **{**parameters, **own})
        plan = rows[0][0] if isinstance(rows[0][0], list) else json.loads(rows[0][0])
        read += [(name, table) for table in whole_tables(plan[0]["Plan"]) if table in large]
    assert read == []


def whole_tables(plan: dict[str, Any]) -> list[str]:
    """The tables that a plan may read from end to end: without an index, or along one with no bound."""
    inner = [table for part in plan.get("Plans", []) for table in whole_tables(part)]
    is_whole = plan["Node Type"] == "Seq Scan" or ("Index Name" in plan and "Index Cond" not in plan)
    return [*inner, str(plan.get("Relation Name"))] if is_whole else inner


def test_the_command_goes_through_all_of_them(many: UUID) -> None:
    """But for what the copies lack: records of claims, and events."""
    call_command("durable_check", "--only", "I1,I2,I3,I6,I8,I16,I17,I18,I20,orphans", verbosity=0)
