"""What a run costs PostgreSQL: updates in place where no status changes, indexes that finished runs are not in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection

from django_durable.core.clock import DatabaseClock
from django_durable.core.journal import Write
from django_durable.core.outcomes import Completed, Suspended
from django_durable.core.states import Status
from django_durable.models import Run
from django_durable.store import recovery, workers
from django_durable.store.claiming import claim_ids, claim_next, claim_suspect
from django_durable.store.committing import write_batch
from django_durable.store.database import Database, PrivateDatabase, Row
from django_durable.store.sql import commits, waits
from tests.store.rows import (
    LEASE,
    WORKFLOW,
    claim,
    claimant,
    entries,
    event_entry,
    fresh,
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
        db.rows("SELECT pg_stat_force_next_flush()")
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
    """A database of 20,000 finished runs, with journals and events, and a few live ones."""
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
            INSERT INTO django_durable_event (run_id, name, payload, idempotency_key, consumed_at, consumed_by)
            SELECT id, 'packed', 'null', '', now(), 'wait' FROM django_durable_run""")
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
    "is any suspect": (lambda db: workers.has_suspects(db, ["default"], [WORKFLOW]), set()),
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
        {"durable_event_open", "durable_journal_waits", "durable_run_cancelling"},
    ),
}


@pytest.mark.parametrize("name", PLANS)
def test_finished_runs_cost_nothing(explaining: Explaining, name: str):
    call, indexes = PLANS[name]
    call(explaining)
    plans = "\n\n".join(explaining.plans)
    assert explaining.plans
    scanned = re.findall(r"Seq Scan on django_durable_(?:run|journalentry|event)\b.*", plans)
    assert scanned == [], plans
    assert indexes <= set(re.findall(r"\w+", plans)), plans


def test_a_batch_finds_its_runs_by_their_keys(explaining: Explaining):
    """In the transaction after the fence as well, and a wake under its lock: what only follows a row that was found."""
    d = explaining.dialect
    parts = {
        "lock": waits.lock_run(d, skips=False),
        "wake": waits.wake(d),
        "fence": commits.fence(d),
        "suspend": commits.with_held(d, commits.suspend(d)),
        "leave": commits.with_held(d, commits.leave(d)),
        "consume": commits.with_held(d, commits.consume_events(d)),
        "children": commits.with_held(d, commits.insert_children(d)),
        "cancelled children": commits.with_held(d, commits.cancel_children(d)),
        "clear": commits.with_held(d, commits.clear_suspicion()),
    }
    empty = dict.fromkeys(("claims", "held", "leaving", "suspending", "children", "consumed"), "[]")
    empty["id"] = str(uuid4())
    for name, sql in parts.items():
        explaining.plans.clear()
        explaining.rows(sql, **{key: value for key, value in empty.items() if f"%({key})s" in sql})
        assert "Seq Scan on django_durable" not in explaining.plans[0], (name, explaining.plans[0])


def test_the_operators_loops_look_at_live_runs_only(explaining: Explaining):
    """The ORM's statements: their plans are asked for on Django's own connection."""
    live = [
        Run.objects.filter(status=Status.QUEUED).exclude(workflow__in=["a"]).order_by("pk")[:10],
        Run.objects.filter(status=Status.BLOCKED, block_reason="diverged").order_by("pk")[:10],
        Run.objects.filter(parent_id__in=[uuid4()], detached=False),
    ]
    for query in live:
        assert "Seq Scan" not in query.explain(), query.explain()
