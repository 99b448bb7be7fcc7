"""What the list of runs reads of a table that holds many more than it looks at."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_durable.admin import finding, search
from django_durable.admin.look_only import CappedPaginator
from django_durable.core.ids import uuid7
from django_durable.core.journal.states import Status
from django_durable.models import IdempotencyKey, Run, Tag
from django_durable.store.keys import hash_of
from tests.admin.pages import list_url, text_of
from tests.admin.world import make_run, make_worker

EACH, LOOKED_AT = 400, 60


@pytest.fixture(autouse=True)
def _many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Very many, beside how few are looked at."""
    monkeypatch.setattr(finding, "LOOKED_AT", LOOKED_AT)
    now = timezone.now()
    runs = []
    for _ in range(EACH):
        for status in Status:
            more: dict[str, Any] = {
                "queued": {"queued_at": now},
                "scheduled": {"wake_at": now},
                "waiting": {"waiting_on": "event:a"},
                "blocked": {"block_reason": "diverged"},
                "running": {"lease_token": uuid4(), "leased_by": uuid4(), "lease_expires_at": now},
            }.get(status, {"finished_at": now} if status in ("succeeded", "failed", "cancelled") else {})
            run_id = uuid7()
            runs.append(Run(id=run_id, root_id=run_id, workflow="app.doubling", queue="default", status=status, **more))
    Run.objects.bulk_create(runs)
    Tag.objects.bulk_create(Tag(run=run, name="blue") for run in runs)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE django_durable_run, django_durable_tag")


QUERIES = [
    *("?workflow=app.rare", "?queue=rare&created=7d", "?trouble=today&workflow=app.rare", "?reason=crashed"),
    *(f"?status={status}&workflow=app.rare" for status in sorted(Status)),
]


def test_the_rare_are_not_looked_for_in_all(boss: Client) -> None:
    for query in QUERIES:
        looks = 2 if "waiting" in query or "queued" in query else 1
        for sql in asked(boss, query):
            # One more, to see whether there are more.
            assert 0 < sum(rows_read(plan_of(sql))) <= looks * (LOOKED_AT + 1), (query, sql)


@pytest.mark.parametrize("until", ["", "&until=ffffffff-ffff-7fff-8fff-ffffffffffff"])
def test_what_is_wrong_is_not_looked_for_in_all(boss: Client, monkeypatch: pytest.MonkeyPatch, until: str) -> None:
    """What sleeps well and what waits for its worker lies in front of it in its index."""
    monkeypatch.setattr(CappedPaginator, "most", 20)
    Run.objects.filter(status="running").update(queue="behind")
    running = Run.objects.filter(status="running").values_list("pk", flat=True)[3:]
    Run.objects.filter(pk__in=list(running)).delete()
    for status in ("scheduled", "waiting", "queued"):
        more = {"wake_at": timezone.now() + timedelta(hours=1)} if status != "queued" else {}
        Run.objects.filter(status=status).update(**more, waiting_on="sleep:a" if status == "waiting" else "")
    wrong = {
        "lapsed": [make_run("running", lease_expires_at=timezone.now() - timedelta(hours=1))],
        "still": [make_run("running", started_at=timezone.now() - timedelta(hours=2), queued_at=None)],
        "overdue": [make_run("scheduled", wake_at=timezone.now() - timedelta(hours=1), queue="vip")],
        "unserved": [make_run("queued", queue="vip"), make_run("queued", queue="vip", limit_key="k")],
    }
    make_worker(queues=["default"])
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE django_durable_run")
    for trouble, runs in wrong.items():
        query = f"?trouble={trouble}{until}"
        found = boss.get(list_url(query)).context["cl"].result_list
        assert {run.pk for run in found} == {run.pk for run in runs}
        read = [sum(rows_read(plan_of(sql))) for sql in asked(boss, query)]
        assert len(read) > 1 and 0 < max(read) < 40, (query, read)
    read = [sum(rows_read(plan_of(sql))) for sql in asked(boss, f"?status=attention&workflow=app.rare{until}")]
    assert len(read) > 1 and 0 < max(read) < 3 * LOOKED_AT, read


def test_a_backlog_with_which_all_is_wrong_is_not_read(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CappedPaginator, "most", 20)
    make_worker(queues=["other"])
    due = Run.objects.filter(status="scheduled")
    due.update(wake_at=timezone.now() - timedelta(hours=1), queue="vip")
    Run.objects.filter(pk__in=list(due.values_list("pk", flat=True)[:50])).update(priority=3)
    for trouble in ("overdue", "unserved"):
        response = boss.get(list_url(f"?trouble={trouble}"))
        assert "There are more than 20 runs here" in text_of(response)
        # Of each line the first, once to find them and once to see that they are still so.
        read = [sum(rows_read(plan_of(sql))) for sql in asked(boss, f"?trouble={trouble}")]
        assert len(read) > 1 and 0 < max(read) < 150, (trouble, read)


def test_a_key_is_looked_for_by_its_index(boss: Client) -> None:
    now, run = timezone.now(), make_run()
    IdempotencyKey.objects.bulk_create(
        IdempotencyKey(
            workflow=f"app.w{number % 7}", key=str(number), key_hash=hash_of(str(number)), run_id=run.pk, input_hash="",
            expires_at=now,
        )
        for number in range(2_000)
    )  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE django_durable_idempotencykey")
    [sql] = asked(boss, "?q=1234", "django_durable_idempotencykey")
    assert sum(rows_read(plan_of(sql), "django_durable_idempotencykey")) < 40
    assert list(boss.get(list_url("?q=1234")).context["cl"].result_list) == [run]


SEARCHES = {
    "?q=blue": 1,
    "?q=+blue+": 2,
    "?q=nobody": 0,
    "?q=+nobody+": 0,
    "?q=c0ffee00-0000-4000-8000-000000000000": 0,
}


@pytest.mark.parametrize("query", SEARCHES)
def test_what_is_searched_is_looked_for_by_its_indexes(boss: Client, query: str) -> None:
    for sql in asked(boss, query):
        assert sum(rows_read(plan_of(sql))) <= SEARCHES[query] * (LOOKED_AT + 1), sql


@pytest.mark.parametrize("term", ["nobody", " nobody ", "c0ffee00-0000-4000-8000-000000000000"])
def test_what_a_field_of_another_model_offers_is_looked_for_by_its_indexes(term: str) -> None:
    """Django's own search for these takes what is found as one queryset."""
    with CaptureQueriesContext(connection) as queries:
        assert not list(search.find(Run.objects.all(), term).order_by("-pk")[:20])
    assert sum(rows_read(plan_of(queries[-1]["sql"]))) == 0


def test_of_what_has_a_tag_of_very_many_a_few_are_looked_up() -> None:
    """As an action does with the rows that were picked, and a field with the newest."""
    every = search.find(Run.objects.all(), "blue").order_by("-pk")
    picked = every.filter(pk__in=[run.pk for run in Run.objects.order_by("pk")[:3]])
    for found, most in ((picked, 3), (every[:20], 20)):
        with CaptureQueriesContext(connection) as queries:
            assert len(found) == most
        assert 0 < sum(rows_read(plan_of(queries[0]["sql"]))) <= most + 1


def test_a_nul_is_in_no_name() -> None:
    assert not search.find(Run.objects.all(), "blue\x00").exists()


def asked(client: Client, query: str, table: str = "django_durable_run") -> list[str]:
    """What a list asks of a table to find its rows, beside the rows themselves."""
    with CaptureQueriesContext(connection) as queries:
        assert client.get(list_url(query)).status_code == 200
    # The rows of the page come by their ids, and what is shown with each likewise.
    shown = ('SELECT "django_durable_run"."id", "django_durable_run"."workflow"', '(SELECT "django_durable_')
    return [sql for sql in (each["sql"] for each in queries) if table in sql and not sql.startswith(shown)]


def plan_of(sql: str) -> dict[str, Any]:
    with connection.cursor() as cursor:
        # As it is where ten million rows fill many pages: of these few pages PostgreSQL would rather read all.
        cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL random_page_cost = 1")
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}".replace("%", "%%"), [])
        found = cursor.fetchone()[0]
    plan: dict[str, Any] = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]
    return plan


def rows_read(plan: dict[str, Any], table: str = "django_durable_run") -> Iterator[int]:
    """Of each scan of the table."""
    if plan.get("Relation Name") == table:
        yield round((plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)) * plan["Actual Loops"])
    for part in plan.get("Plans", []):
        yield from rows_read(part, table)
