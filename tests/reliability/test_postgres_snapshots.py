"""What the models of tests/models take for granted of PostgreSQL: whose snapshot a statement reads, and what it checks
again once it has waited for a row. Three small tables, two sessions; each shorter form beside the one that we use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg
import pytest
from django.db import connection

from tests.processes import wait_until
from tests.store.parallel import Threads, answer

pytestmark = pytest.mark.django_db(transaction=True)

Session = psycopg.Connection[Any]
Open = Callable[[], Session]

TABLES = """
    CREATE SCHEMA snapshots;
    SET search_path = snapshots;
    CREATE TABLE run (id int PRIMARY KEY, status text, asked bool DEFAULT false, key text);
    CREATE TABLE event (id serial PRIMARY KEY, run_id int REFERENCES run (id));
    CREATE TABLE lim (key text PRIMARY KEY);
    INSERT INTO run VALUES (1, 'running', false, 'k'), (2, 'queued', false, 'k'), (3, 'queued', false, 'k');
    INSERT INTO lim VALUES ('k')
"""
LOCK = "SELECT 1 FROM run WHERE id = 1 FOR NO KEY UPDATE"
IN_ONE = "WITH l AS MATERIALIZED (SELECT id FROM run WHERE id = 1 FOR NO KEY UPDATE{skip}) UPDATE run SET status = "
WAKE = "UPDATE run SET status = 'queued' WHERE id = 1 AND status = 'waiting'"


@pytest.fixture
def threads() -> Iterator[Threads]:
    with Threads() as threads:
        yield threads


@pytest.fixture
def session(transactional_db: None) -> Iterator[Open]:
    """Opens sessions in autocommit that find the small tables."""
    given = connection.settings_dict
    opened: list[Session] = []

    def one() -> Session:
        server = {"host": given["HOST"], "port": given["PORT"] or None, "user": given["USER"]}
        made = psycopg.connect(dbname=given["NAME"], autocommit=True, **{k: v for k, v in server.items() if v})
        made.execute("SET search_path = snapshots")
        opened.append(made)
        return made

    first = one()
    first.execute(TABLES)
    yield one
    for other in opened[1:]:
        other.close()
    first.execute("DROP SCHEMA snapshots CASCADE")
    first.close()


def behind(threads: Threads, watching: Session, holder: Session, waiting: Session, statements: Sequence[str]) -> Any:
    """Starts the statements in a session of their own; returns when they wait for ``holder``, or are through."""

    def work() -> list[Any]:
        cursors = [waiting.execute(statement) for statement in statements]
        return [cursor.fetchall() if cursor.description else cursor.rowcount for cursor in cursors]

    future = threads.start(work)
    ask = "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"
    blocked = [holder.info.backend_pid]
    wait_until(lambda: future.done() or (watching.execute(ask, blocked).fetchone() or [0])[0], message="it to wait")
    return future


def status(of: Session, run_id: int = 1) -> str:
    return str((of.execute("SELECT status FROM run WHERE id = %s", [run_id]).fetchone() or [""])[0])


@pytest.mark.parametrize(
    ("ends", "statements"),
    [
        pytest.param("waiting", [WAKE], id="one conditional UPDATE"),
        pytest.param("queued", ["BEGIN", LOCK, WAKE, "COMMIT"], id="lock, then UPDATE (ours)"),
        pytest.param(
            "waiting",
            [IN_ONE.format(skip="") + "'queued' FROM l WHERE run.id = l.id AND run.status = 'waiting'"],
            id="lock and UPDATE in one",
        ),
        pytest.param(
            "waiting",
            [IN_ONE.format(skip=" SKIP LOCKED") + "'queued' FROM l WHERE run.id = l.id AND run.status = 'waiting'"],
            id="given up where it is locked",
        ),
        pytest.param(
            "queued",
            ["UPDATE run SET status = CASE status WHEN 'waiting' THEN 'queued' ELSE status END WHERE id = 1"],
            id="UPDATE whatever it is",
        ),
        pytest.param(
            "waiting",
            [
                "UPDATE run SET asked = true, status = 'queued' WHERE id = 1 AND status = 'waiting'",
                "UPDATE run SET asked = true WHERE id = 1 AND status IN ('running', 'queued')",
            ],
            id="an UPDATE for each status",
        ),
    ],
)
def test_a_wake_behind_a_suspension(session: Open, threads: Threads, ends: str, statements: list[str]) -> None:
    """It has looked for events and found none, and holds the row; then the event comes, and its wake."""
    suspending, sender, waking, watching = (session() for _ in range(4))
    with suspending.transaction():
        suspending.execute("UPDATE run SET status = 'waiting' WHERE id = 1")
        # The foreign key's lock does not wait for that of an UPDATE that leaves the key alone.
        sender.execute("INSERT INTO event (run_id) VALUES (1)")
        future = behind(threads, watching, suspending, waking, statements)
    answer(future)
    assert status(watching) == ends


EVENT = "EXISTS (SELECT 1 FROM event e WHERE e.run_id = run.id)"
LOOK = f"CASE WHEN {EVENT} THEN 'queued' ELSE 'waiting' END"


@pytest.mark.parametrize(
    ("ends", "statements"),
    [
        pytest.param("waiting", [f"UPDATE run SET status = {LOOK} WHERE id = 1 AND status = 'running'"], id="in one"),
        pytest.param(
            "queued",
            ["BEGIN", LOCK, f"UPDATE run SET status = {LOOK} WHERE id = 1 AND status = 'running'", "COMMIT"],
            id="fence, then UPDATE with the look (ours)",
        ),
        pytest.param(
            "waiting",
            [IN_ONE.format(skip="") + f"{LOOK} FROM l WHERE run.id = l.id AND run.status = 'running'"],
            id="fence and look in one",
        ),
    ],
)
def test_a_suspension_behind_another_who_holds_the_row(
    session: Open, threads: Threads, ends: str, statements: list[str]
) -> None:
    """The event comes after the suspension has begun to wait for the row: has it looked before that, or after?"""
    holding, sender, suspending, watching = (session() for _ in range(4))
    with holding.transaction():
        holding.execute(LOCK)
        future = behind(threads, watching, holding, suspending, statements)
        sender.execute("INSERT INTO event (run_id) VALUES (1)")
    answer(future)
    assert status(watching) == ends


def test_what_an_update_reads_of_its_own_row_is_read_again_behind_the_lock(session: Open, threads: Threads) -> None:
    """So that a suspension sees a cancellation that it had to wait for."""
    asking, suspending, watching = (session() for _ in range(3))
    suspend = "UPDATE run SET status = CASE WHEN asked THEN 'queued' ELSE 'waiting' END WHERE id = 1"
    with asking.transaction():
        asking.execute("UPDATE run SET asked = true WHERE id = 1")
        future = behind(threads, watching, asking, suspending, [suspend])
    answer(future)
    assert status(watching) == "queued"


HAS_ROOM = "(SELECT count(*) FROM run WHERE key = 'k' AND status = 'running') < 1"
OWN = "UPDATE run SET status = 'running' WHERE id = {0} AND status = 'queued' AND " + HAS_ROOM
LIMIT = "FROM lim WHERE key = 'k' FOR NO KEY UPDATE"
LIMITED = f"WITH l AS MATERIALIZED (SELECT key {LIMIT}) UPDATE run SET status = 'running' FROM l WHERE id = {{0}} "


@pytest.mark.parametrize(
    ("leased", "statements", "has_row"),
    [
        pytest.param(1, [f"SELECT 1 {LIMIT}", OWN], True, id="lock, then count and claim (ours)"),
        pytest.param(2, [LIMITED + f"AND status = 'queued' AND run.key = l.key AND {HAS_ROOM}"], True, id="in one"),
        pytest.param(2, [f"SELECT 1 {LIMIT}", OWN], False, id="no row to lock"),
    ],
)
def test_two_claims_under_a_limit_of_one(
    session: Open, threads: Threads, leased: int, statements: list[str], has_row: bool
) -> None:
    first, second, watching = (session() for _ in range(3))
    watching.execute("UPDATE run SET status = 'finished' WHERE id = 1")
    if not has_row:
        watching.execute("DELETE FROM lim")
    with first.transaction():
        for statement in statements:
            first.execute(statement.format(2))
        future = behind(threads, watching, first, second, [statement.format(3) for statement in statements])
    answer(future)
    [count] = watching.execute("SELECT count(*) FROM run WHERE status = 'running'").fetchone() or [0]
    assert count == leased


def test_a_claim_that_reads_beside_its_row_reads_what_was_there_before_its_wait(
    session: Open, threads: Threads
) -> None:
    """So journal and events are read by a later statement."""
    holding, claiming, watching = (session() for _ in range(3))
    watching.execute("UPDATE run SET status = 'queued' WHERE id = 1")
    seen = "RETURNING (SELECT count(*) FROM event WHERE run_id = 1), asked"
    claim = f"UPDATE run SET status = 'running' WHERE id = 1 AND status = 'queued' {seen}"
    with holding.transaction():
        holding.execute(LOCK)
        future = behind(threads, watching, holding, claiming, [claim])
        holding.execute("INSERT INTO event (run_id) VALUES (1)")
        holding.execute("UPDATE run SET asked = true WHERE id = 1")
    assert answer(future) == [[(0, True)]], "of its own row the newest, of others those of before"
