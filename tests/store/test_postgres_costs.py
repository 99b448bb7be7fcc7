"""What a run costs PostgreSQL: updates in place where no status changes, indexes that finished runs are not in."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection, transaction

from django_durable.core.clock import DatabaseClock
from django_durable.core.journal.journal import Write
from django_durable.core.journal.outcomes import Completed, Suspended
from django_durable.core.journal.states import Kind, Status
from django_durable.models import Run
from django_durable.store import fitting, recovery, transitions, unwanted, workers
from django_durable.store.auditing import Verb
from django_durable.store.claiming import Claimant, claim_ids, claim_next, claim_oldest, claim_suspect, load_news
from django_durable.store.committing import write_batch
from django_durable.store.database import Database, PrivateDatabase, Row
from django_durable.store.fencing import claim_rows, still_held
from django_durable.store.sql import claims, commits, waits
from tests.store.rows import (
    LEASE,
    WORKFLOW,
    child_entry,
    claim,
    claimant,
    entries,
    event_entry,
    fresh,
    journal_row,
    lease_of,
    make_run,
    send,
    status_of,
    step_entry,
)

pytestmark = pytest.mark.django_db(transaction=True)


def updates(db: Database, table: str = "django_durable_run") -> tuple[int, int]:
    """Updates of the table so far, and how many of them were HOT, by this session's own count."""
    if connection.pg_version >= 150_000:
        # The tests' own session too: it may have something to tell of the tests before.
        for one in (Database(), db):
            one.rows("SELECT pg_stat_force_next_flush()")
    [(total, hot)] = db.rows(
        "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = %(table)s", table=table
    )
    return total, hot


def test_a_life_costs_one_update_that_is_not_hot_for_each_change_of_status(db: PrivateDatabase):
    run = make_run()
    total_before, hot_before = updates(db)
    statuses = [status_of(run)]
    renewals = 0

    def now() -> None:
        statuses.append(status_of(run))

    for turn in range(3):
        [claimed] = claim(db, run)
        now()
        for step in range(3):
            write_batch(db, [(claimed.lease, Write(entries(step_entry(f"{turn}/{step}"))))])
            recovery.renew(db, [claimed.lease], lease=LEASE)
            renewals += 1
        if turn < 2:
            wait = event_entry()
            wait.path = f"wait {turn}"
            write_batch(db, [(claimed.lease, Write(entries(wait), outcome=Suspended(f"event:{wait.path}")))])
            now()
            event = send(run.pk)
            recovery.wake(db, run.pk)
            now()
            type(event).objects.filter(pk=event.pk).delete()
        else:
            write_batch(db, [(claimed.lease, Write(outcome=Completed("1")))])
            now()
    assert statuses == [
        "queued",
        "running",
        "waiting",
        "queued",
        "running",
        "waiting",
        "queued",
        "running",
        "succeeded",
    ]
    total, hot = (after - before for after, before in zip(updates(db), (total_before, hot_before), strict=True))
    changes = len(statuses) - 1
    assert (total, hot) == (changes + renewals, renewals)


def test_what_a_lease_is_made_of_is_in_no_index(db: PrivateDatabase):
    """Else not one renewal would be HOT."""
    definitions = [row[0] for row in db.rows("SELECT indexdef FROM pg_indexes WHERE tablename = 'django_durable_run'")]
    assert len(definitions) > 5
    assert not [text for text in definitions if re.search("lease_expires_at|lease_token|claims", text)]


def test_the_hot_tables_have_their_settings(db: PrivateDatabase):
    options = dict(db.rows("SELECT relname::text, reloptions FROM pg_class WHERE relname LIKE 'django_durable%%'"))
    assert "fillfactor=80" in options["django_durable_run"]
    assert "fillfactor=50" in options["django_durable_worker"]
    # Both go with their run, as many at a time.
    for table in ("journalentry", "payload"):
        assert "autovacuum_vacuum_scale_factor=0.05" in options[f"django_durable_{table}"]


def test_a_table_that_somebody_has_partitioned_keeps_its_settings(
    db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL would refuse them, and the migration with them."""
    migration = import_module("django_durable.migrations.0004_payload_vacuum")
    monkeypatch.setattr(migration, "TABLE", "partitioned_by_hand")
    with connection.schema_editor() as editor:
        editor.execute("CREATE TABLE partitioned_by_hand (id uuid) PARTITION BY RANGE (id)")
        migration.set_all(None, editor)
        migration.reset_all(None, editor)
        editor.execute("DROP TABLE partitioned_by_hand")


def test_who_has_made_a_later_claim_is_kept_without_a_wait_for_the_disk(db: PrivateDatabase):
    """The claim itself waits for it, and so does what is committed next."""

    class Watched(PrivateDatabase):
        """Asks after each statement, in the transaction of that, whether its commit waits."""

        def rows(self, sql: str, **parameters: Any) -> list[Row]:
            with self.transaction():
                found = super().rows(sql, **parameters)
                [(setting,)] = super().rows("SELECT current_setting('synchronous_commit')")
            settings.append(("claimrecord" in sql, setting))
            return found

    settings: list[tuple[bool, str]] = []
    run, watched = make_run(claims=1), Watched()
    claim(watched, run)
    watched.close()
    assert (True, "off") in settings
    assert {setting for is_kept, setting in settings if not is_kept} == {"on"}


# --- plans -----------------------------------------------------------------------------------


class Explaining(PrivateDatabase):
    """Asks for the plan of every statement instead of executing it."""

    def __init__(self) -> None:
        super().__init__()
        self.plans: list[str] = []

    def rows(self, sql: str, **parameters: Any) -> list[Row]:
        plan = super().rows(f"EXPLAIN (COSTS OFF) {sql}", **parameters)
        self.plans.append("\n".join(row[0] for row in plan))
        return []


@pytest.fixture
def explaining(transactional_db: None) -> Iterator[Explaining]:
    """A database of 20,000 finished runs, with journals and events, and a few live ones. Some of them ended before
    they took their events, or while they still waited for a child."""
    with connection.cursor() as cursor:
        cursor.execute("""
            INSERT INTO django_durable_run (id, workflow, queue, priority, status, phase, attempt, claims, crashes,
                suspect, block_reason, fingerprint, waiting_on, queued_at, finished_at, parent_path, root_id, detached)
            SELECT gen_random_uuid(), 'tests.work', 'default', 0, 'succeeded', 'forward', 1, 1, 0,
                false, '', '', '', now(), now(), '', gen_random_uuid(), false FROM generate_series(1, 20000)""")
        cursor.execute("""
            INSERT INTO django_durable_journalentry
                (run_id, path, seq, kind, status, attempts, value, started_at, awaits, token)
            SELECT id, 'step', 1, 'step', 'succeeded', 1, '1', now(), '', id FROM django_durable_run""")
        cursor.execute("""
            INSERT INTO django_durable_journalentry
                (run_id, path, seq, kind, status, attempts, value, started_at, awaits, token)
            SELECT id, 'child', 2, 'child', 'waiting', 0, NULL, now(), '', id FROM django_durable_run""")
        cursor.execute("""
            INSERT INTO django_durable_event (run_id, name, payload, idempotency_key, consumed_at, consumed_by)
            SELECT id, 'packed', 'null', '', CASE WHEN number = 1 THEN now() END, 'wait'
            FROM django_durable_run, generate_series(1, 3) number""")
        for status in sorted(set(Status) - {"succeeded"}):
            make_run(status)
        cursor.execute("ANALYZE django_durable_run, django_durable_journalentry, django_durable_event")
    db = Explaining()
    yield db
    db.close()


def some_run() -> Run:
    return fresh(Run.objects.filter(status="running")[0])


def write(*, outcome: Any = None, **more: Any) -> Callable[[Database], object]:
    def call(db: Database) -> object:
        return write_batch(db, [(lease_of(some_run()), Write(entries(step_entry()), outcome=outcome, **more))])

    return call


PLANS: dict[str, tuple[Callable[[Database], object], set[str]]] = {
    "claim best first": (
        lambda db: claim_next(db, claimant(), 10, lease=LEASE, time=DatabaseClock()),
        {"durable_run_ready", "durable_run_due"},
    ),
    "claim by id": (
        lambda db: claim_ids(db, claimant(), [uuid4()], lease=LEASE, time=DatabaseClock()),
        {"django_durable_run_pkey"},
    ),
    "claim a suspect": (lambda db: claim_suspect(db, claimant(), lease=LEASE, time=DatabaseClock()), set()),
    "busy": (lambda db: workers.count_busy(db, [uuid4()]), set()),
    "suspects": (lambda db: workers.count_suspects(db, ["default"], [WORKFLOW], 100), set()),
    "refill": (lambda db: workers.first_startable(db, "default", 100), {"durable_run_ready"}),
    "promote": (lambda db: recovery.promote(db, 10), {"durable_run_due"}),
    "reap": (lambda db: recovery.reap(db, 10, lease=LEASE, max_crashes=3), {"durable_run_leased"}),
    "reap a worker": (
        lambda db: recovery.reap_worker(db, uuid4(), lease=LEASE, max_crashes=3),
        {"durable_run_leased"},
    ),
    "release a worker": (lambda db: recovery.release_worker(db, uuid4()), {"durable_run_leased"}),
    "renew": (lambda db: recovery.renew(db, [lease_of(some_run())], lease=LEASE), {"django_durable_run_pkey"}),
    "journal": (write(), {"django_durable_run_pkey"}),
    "outcome": (write(outcome=Completed("1")), {"django_durable_run_pkey"}),
    "sweep": (
        lambda db: recovery.sweep(db, 10),
        {"durable_run_awaiting", "durable_event_open", "durable_journal_waits", "durable_run_cancelling"},
    ),
    "claim the oldest": (
        lambda db: claim_oldest(db, claimant(), 10, lease=LEASE, time=DatabaseClock()),
        {"durable_run_ready"},
    ),
    "news": (lambda db: load_news(db, some_run().pk), {"durable_event_open", "durable_run_live_child"}),
}


def test_finished_runs_cost_nothing(explaining: Explaining):
    for name, (call, indexes) in PLANS.items():
        explaining.plans.clear()
        call(explaining)
        assert_nothing_is_scanned(name, explaining.plans)
        assert indexes <= set(re.findall(r"\w+", " ".join(explaining.plans))), (name, explaining.plans)


def assert_nothing_is_scanned(name: str, plans: list[str]) -> None:
    assert plans, name
    scanned = re.findall(r"Seq Scan on django_durable_(?:run|journalentry|event)\b.*", "\n\n".join(plans))
    assert scanned == [], (name, plans)


class Counting(PrivateDatabase):
    """Executes every statement and counts the rows that its scans of the big tables have looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.looked_at = 0

    def rows(self, sql: str, **parameters: Any) -> list[Row]:
        [(plan,)] = super().rows(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {sql}", **parameters)
        self.looked_at += sum(map(looked_at, plan))
        return []


def looked_at(node: dict[str, Any]) -> int:
    """Rows that the scans below this node of a plan gave, or gave up after a look."""
    inner = [node["Plan"]] if "Plan" in node else node.get("Plans", [])
    removed = sum(node.get(f"Rows Removed by {what}", 0) for what in ("Filter", "Index Recheck", "Join Filter"))
    own = node["Actual Rows"] + removed if "Relation Name" in node or "Index Name" in node else 0
    return int(own * node.get("Actual Loops", 1)) + sum(map(looked_at, inner))


@pytest.fixture
def counting(transactional_db: None) -> Iterator[Counting]:
    db = Counting()
    yield db
    db.close()


def test_a_sweep_looks_at_nothing_of_finished_runs(explaining: Explaining, counting: Counting):
    """Not at their 20,000 events that nobody took, nor at as many entries that still wait for a child."""
    parent = make_run(Status.WAITING, waiting_on="child:child")
    journal_row(parent, child_entry())
    for _ in range(5):
        forgotten = make_run(Status.WAITING, waiting_on="event:packed")
        journal_row(forgotten, event_entry())
        send(forgotten.pk)
    recovery.sweep(counting, 10)
    assert counting.looked_at < 100
    db = PrivateDatabase()
    assert len(recovery.sweep(db, 10)) == 6
    db.close()


CHILDREN = """
    INSERT INTO django_durable_run (id, workflow, queue, priority, status, phase, attempt, claims, crashes,
        suspect, block_reason, fingerprint, waiting_on, queued_at, parent_id, parent_path, root_id, detached)
    SELECT gen_random_uuid(), 'tests.work', 'default', 0, 'queued', 'forward', 1, 0, 0,
        false, '', '', '', now(), %(parent)s, map || '[' || n || ']', %(parent)s, false
    FROM generate_series(0, %(count)s - 1) n, unnest(%(maps)s::text[]) map"""
CLAIMED = """
    UPDATE django_durable_run SET status = 'running', claims = 1, lease_token = id, leased_by = id,
        lease_expires_at = now()
    WHERE parent_path LIKE 'each[%%'"""
OVER = """
    UPDATE django_durable_run SET status = 'succeeded', finished_at = now(), lease_token = NULL, leased_by = NULL,
        lease_expires_at = NULL
    WHERE parent_path = ANY (SELECT 'each[' || n || ']' FROM generate_series(0, %(last)s) n)"""


class Touching(PrivateDatabase):
    """Executes every statement and counts the pages that it has touched: dead entries of an index cost as well."""

    def __init__(self) -> None:
        super().__init__()
        self.pages = 0
        self.indexes: set[str] = set()

    def rows(self, sql: str, **parameters: Any) -> list[Row]:
        [(plan,)] = super().rows(f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {sql}", **parameters)
        top = plan[0]["Plan"]
        self.pages += top["Shared Hit Blocks"] + top["Shared Read Blocks"]
        self.indexes |= set(re.findall(r"durable_(?:run|payload)_\w+", str(plan)))
        return []


@pytest.fixture
def touching(transactional_db: None) -> Iterator[Touching]:
    db = Touching()
    yield db
    db.close()


def a_fan_out(over: int, count: int = 10_000, awaits: str = "") -> Run:
    """A parent of ``count`` children at the map ``each``, the first of which are over, and as many at another map."""
    parent = make_run(Status.WAITING, waiting_on="join:both", wake_at=None)
    for path in ("each", "other"):
        journal_row(parent, replace(child_entry(path), kind=Kind.MAP, awaits=awaits))
    with connection.cursor() as cursor:
        cursor.execute(CHILDREN, {"parent": parent.pk, "maps": ["other", "each"], "count": count})
        cursor.execute(CLAIMED)
        cursor.execute(OVER, {"last": over - 1})
        cursor.execute("ANALYZE django_durable_run, django_durable_journalentry")
    return parent


@pytest.mark.parametrize("over", [1, 5_000, 9_990])
def test_the_end_of_one_of_ten_thousand_children_costs_the_same_early_and_late(touching: Touching, over: int):
    parent = a_fan_out(over)
    touching.rows(waits.is_left_alone(touching.dialect), id=str(parent.pk), map="each")
    assert touching.indexes == {"durable_run_live_child", "durable_run_pkey"}
    assert touching.pages < 20
    db = PrivateDatabase()
    assert recovery.try_wake_parent(db, parent.pk, "each[0]") == []
    db.close()


@pytest.mark.parametrize("over", [1_000, 9_900])
def test_the_end_of_one_of_a_hundred_that_live_at_a_time_costs_the_same_early_and_late(touching: Touching, over: int):
    """The first that looks marks what the index still holds of those that are over."""
    parent = a_fan_out(over, over + 100, awaits="50")
    look = partial(touching.rows, waits.is_left_alone(touching.dialect), id=str(parent.pk), map="each")
    look()
    touching.pages = 0
    look()
    assert touching.indexes == {"durable_run_live_child", "durable_run_pkey"}
    # Two for each sibling that is counted, and no more.
    assert touching.pages < 120


@pytest.mark.parametrize("over", [1, 9_990])
def test_a_sweep_over_ten_thousand_live_children_looks_at_one_of_each_map(counting: Counting, over: int):
    a_fan_out(over)
    recovery.sweep(counting, 10)
    assert 0 < counting.looked_at < 20


def test_a_sweep_for_unwanted_children_asks_none_of_ten_thousand_healthy_ones(touching: Touching):
    a_fan_out(over=0)
    with connection.cursor() as cursor:
        cursor.execute("""
            INSERT INTO django_durable_payload (run_id, kind, data)
            SELECT id, 'input', '[]' FROM django_durable_run ON CONFLICT DO NOTHING""")
        cursor.execute("ANALYZE django_durable_payload")
    assert unwanted.find_unwanted(touching, 10) == {}
    assert touching.indexes == {"durable_payload_unwanted"}
    assert touching.pages < 5


BACKLOG = """
    INSERT INTO django_durable_run (id, workflow, queue, priority, status, phase, attempt, claims, crashes,
        suspect, block_reason, fingerprint, waiting_on, queued_at, wake_at, parent_path, root_id, detached)
    SELECT gen_random_uuid(), 'tests.work', (ARRAY['default', 'mail'])[1 + n % 2], n % 5, kind.status, 'forward', 1, 0,
        0, false, '', '', kind.waiting_on, now() - n * interval '1 second',
        CASE WHEN kind.status = 'waiting' THEN now() + (n - 10000) * interval '1 second' END,
        '', gen_random_uuid(), false
    FROM generate_series(1, 20000) n, (VALUES ('queued', ''), ('waiting', 'sleep:nap')) kind (status, waiting_on)"""
OVER_A_BACKLOG: dict[str, Callable[[Database, Claimant], object]] = {
    "claim best first": lambda db, who: claim_next(db, who, 10, lease=LEASE, time=DatabaseClock()),
    "claim the oldest": lambda db, who: claim_oldest(db, who, 10, lease=LEASE, time=DatabaseClock()),
    "promote": lambda db, who: recovery.promote(db, 10),
    "next due": lambda db, who: db.rows(
        claims.next_due(db.dialect, limited=False), queues=list(who.queues), workflows=list(who.workflows)
    ),
}


def test_a_backlog_makes_a_claim_no_dearer(counting: Counting):
    """20,000 queued and 10,000 due, in two queues and five priorities: LIMIT ends the scans, no sort comes first."""
    with connection.cursor() as cursor:
        cursor.execute(BACKLOG)
        cursor.execute("ANALYZE django_durable_run")
    for name, call in OVER_A_BACKLOG.items():
        counting.looked_at = 0
        call(counting, claimant(queues=["default", "mail"]))
        # Ten of each of ten lines, each found, locked and merged once.
        assert 0 < counting.looked_at < 1000, name


def test_a_batch_finds_its_runs_by_their_keys(explaining: Explaining):
    """In the transaction after the fence as well, and a wake under its lock: what only follows a row that was found."""
    d = explaining.dialect
    parts = {
        "lock": waits.lock_run(d, skips=False),
        "wake": waits.wake(d),
        "left alone": waits.is_left_alone(d),
        "fence": commits.fence(d),
        "suspend": commits.with_held(d, commits.suspend(d)),
        "leave": commits.with_held(d, commits.leave(d)),
        "consume": commits.with_held(d, commits.consume_events(d)),
        "answer": commits.with_held(d, commits.answer_events(d)),
        "children": commits.with_held(d, commits.insert_children(d)),
        "cancelled children": commits.with_held(d, commits.cancel_children(d)),
        "clear": commits.with_held(d, commits.clear_suspicion(d)),
    }
    empty = dict.fromkeys(
        ("claims", "held", "cleared", "leaving", "suspending", "children", "consumed", "answers"), "[]"
    )
    empty |= {"id": str(uuid4()), "map": "each"}
    for name, sql in parts.items():
        explaining.plans.clear()
        explaining.rows(sql, **{key: value for key, value in empty.items() if f"%({key})s" in sql})
        assert "Seq Scan on django_durable" not in explaining.plans[0], (name, explaining.plans[0])


BY_THE_ORM: dict[str, Callable[[], object]] = {
    "block what nobody knows": lambda: fitting.block_unknown(Database(), ["a", "b"], 10),
    "unblock what may fit": lambda: fitting.unblock_known(Database(), {"a": "1", WORKFLOW: "2"}, ["default"]),
    "cancel": lambda: transitions.cancel(Database(), [some_run().pk], Verb()),
    "resume": lambda: transitions.resume(Database(), [some_run().pk], Verb()),
}


def test_what_the_orm_asks_is_of_live_runs_only(explaining: Explaining):
    """Its statements stand on Django's own connection, and are executed after their plan was asked for."""
    plans: list[str] = []

    def explain(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        if sql.startswith(("SELECT", "UPDATE", "DELETE")) and "set_config" not in sql:
            with context["connection"].connection.cursor() as cursor:
                cursor.execute(f"EXPLAIN (COSTS OFF) {sql}", params)
                plans.append("\n".join(row[0] for row in cursor.fetchall()))
        return execute(sql, params, many, context)

    for name, call in BY_THE_ORM.items():
        plans.clear()
        # Undone, so that the next one finds the same runs.
        with connection.execute_wrapper(explain), transaction.atomic():
            call()
            transaction.set_rollback(True)
        assert_nothing_is_scanned(name, plans)


def test_a_few_runs_of_a_young_table_are_found_by_their_keys(counting: Counting):
    """Without statistics, and while reading all of the table looks cheap beside what a parameter may hold."""
    with connection.cursor() as cursor:
        cursor.execute(BACKLOG.replace("20000", "3000"))
    db, d = PrivateDatabase(), counting.dialect
    ids = [*Run.objects.filter(status="queued", queue="default").values_list("pk", flat=True)[:16]]
    leases = [one.lease for one in claim_ids(db, claimant(), ids[8:], lease=LEASE, time=DatabaseClock())]
    db.close()
    suspending = [{"run_id": str(one.run_id), "waiting_on": "sleep:nap", "wake_after": 60.0} for one in leases[4:]]
    suspend = partial(counting.rows, commits.with_held(d, commits.suspend(d)), suspending=json.dumps(suspending))
    calls: dict[str, Callable[[], object]] = {
        "claim by id": lambda: claim_ids(counting, claimant(), ids[:8], lease=LEASE, time=DatabaseClock()),
        "renew": lambda: recovery.renew(counting, leases, lease=LEASE),
        "held": lambda: still_held(counting, leases),
        "steps": lambda: write_batch(counting, [(one, Write(entries(step_entry()))) for one in leases]),
        "ends": lambda: write_batch(counting, [(one, Write(outcome=Completed("1"))) for one in leases[:4]]),
        "waits": lambda: suspend(held=claim_rows(d, leases[4:])),
    }
    assert len(leases) == 8
    for name, call in calls.items():
        counting.looked_at = 0
        call()
        assert 0 < counting.looked_at < 100, name
