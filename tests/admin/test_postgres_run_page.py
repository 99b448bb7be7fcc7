"""What a run's page reads of a run that has very much."""

from __future__ import annotations

import secrets
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_durable.core.payloads.codec import encode
from django_durable.models import Run
from tests.admin.pages import run_url, text_of
from tests.admin.test_postgres_run_list import rows_read
from tests.admin.world import make_entry, make_run
from tests.client.test_postgres_standing import COLUMNS

MANY, ERRORS = 50_000, 20


@pytest.mark.parametrize("others", ["succeeded", "failed"])
def test_very_many_children_are_not_read(boss: Client, others: str) -> None:
    """Nor are those of another that failed."""
    run, other = make_run("waiting"), make_run("waiting")
    make_children(run, "succeeded")
    make_children(other, others)
    failed = make_run("failed", parent=run, parent_path="zzz")
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE django_durable_run")
    with CaptureQueriesContext(connection) as queries:
        page = boss.get(run_url(run)).content.decode()
    assert run_url(failed) in page or others == "failed"
    read = [sum(rows_read(explained(query["sql"]))) for query in queries if '"parent_path"' in query["sql"]]
    # Of what is looked at twice more, to find the best of it, and of what is shown its children.
    assert 0 < max(read) < 1_000, read


def make_children(run: Run, status: str) -> None:
    columns = {**COLUMNS, "status": f"'{status}'", "finished_at": "now()", "parent_id": f"'{run.pk}'::uuid",
               "parent_path": "'items[' || n || ']'"}  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO django_durable_run ({', '.join(columns)})"
            f" SELECT {', '.join(columns.values())} FROM generate_series(1, {MANY}) n"
        )


def explained(sql: str) -> Any:
    """With PostgreSQL's own choice of the plan."""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}".replace("%", "%%"), [])
        return cursor.fetchone()[0][0]["Plan"]


def test_of_large_values_only_what_is_shown_is_read(boss: Client) -> None:
    large, error = encode(secrets.token_urlsafe(4_000_000)), encode(secrets.token_urlsafe(150_000))
    run = make_run("failed")
    make_entry(run, "large", value=large)
    for number in range(ERRORS):
        make_entry(run, f"wrong[{number}]", 2 + number, status="failed", error=error)
    run.payloads.create(kind="output", data=large)
    run.payloads.create(kind="error", data=large)
    run.events.create(name="packed", payload=large)
    with CaptureQueriesContext(connection) as queries:
        page = text_of(boss.get(run_url(run)))
    assert page.count(f"{len(large):,} characters in all") == 4
    assert page.count(f"{len(error):,} characters in all") == ERRORS
    touched = [buffers_of(query["sql"]) for query in queries if '_size"' in query["sql"]]
    # Each has two thousand parts, and an error a hundred.
    assert len(touched) == 3 and max(touched) < 200, touched


def buffers_of(sql: str) -> int:
    plan = explained(sql)
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
