"""What a rate costs PostgreSQL: the starts of its period, whatever began before, however many wait."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest
from django.db import connection

from django_durable.store.database import Database, as_json
from django_durable.store.sql import limits as sql
from tests.store.rows import WORKFLOW
from tests.store.test_postgres_costs import Touching, touching

__all__ = ["touching"]

pytestmark = pytest.mark.django_db(transaction=True)

MANY = """
    INSERT INTO django_durable_run (id, workflow, queue, priority, status, phase, attempt, claims, crashes, suspect,
        block_reason, fingerprint, waiting_on, queued_at, started_at, finished_at, parent_path, root_id, detached,
        limit_key)
    SELECT gen_random_uuid(), 'tests.work', 'default', 0, %(status)s, 'forward', 1, 0, 0, false, '', '', '',
        now() - n * interval '1 second', now() - %(ago)s * interval '1 second',
        CASE WHEN %(status)s = 'succeeded' THEN now() END, '', gen_random_uuid(), false, 'a'
    FROM generate_series(1, %(count)s) n"""
BOUNDS = {"maximum": None, "starts": 2, "seconds": 60}


def find_room(db: Database, *, ends: bool = False) -> None:
    own = {"workflows": [WORKFLOW], "queues": ["default"], "limit": 10}
    bounds = as_json([{"workflow": WORKFLOW, **BOUNDS}])
    statement = sql.find_room(db.dialect, sql.mine(db.dialect, suspect=False), ends=ends)
    db.rows(statement, keys=["a"], limits=bounds, **own)


def claim(db: Database, *, ends: bool = False) -> None:
    own = {"workflows": [WORKFLOW], "queues": ["default"], "limit": 10}
    granted = as_json([{"key": "a", "place": 0, **BOUNDS}])
    statement = sql.claim_granted(db.dialect, sql.mine(db.dialect, suspect=False), ends=ends)
    db.rows(statement, granted=granted, worker=str(uuid4()), lease=30.0, **own)


def opening(db: Database) -> None:
    bounds = as_json([{"workflow": WORKFLOW, **BOUNDS}])
    db.rows(sql.next_opening(db.dialect), keys=["a"], limits=bounds)


@pytest.mark.parametrize("ask", [find_room, claim, opening])
def test_a_full_rate_looks_at_its_period_and_at_what_may_go_on(
    touching: Touching, ask: Callable[[Database], None]
) -> None:
    with connection.cursor() as cursor:
        for status, ago, count in (("succeeded", 90_000, 5_000), ("succeeded", 30, 2), ("queued", 40, 1)):
            cursor.execute(MANY, {"status": status, "ago": ago, "count": count})
        cursor.execute(MANY, {"status": "queued", "ago": None, "count": 5_000})
        cursor.execute("ANALYZE django_durable_run")
    ask(touching)
    assert touching.indexes >= {"durable_run_limited_started"}
    assert touching.pages < 80
