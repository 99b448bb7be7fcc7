"""What it costs to see how an installation stands, however much has run and however much waits."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from django_durable.admin.finding import Chosen, find
from django_durable.admin.needs import sticking
from django_durable.admin.verbs import RESUME
from django_durable.client import standing
from django_durable.models import JournalEntry, Run
from django_durable.store.holding import Held
from tests.store.test_postgres_costs import looked_at

pytestmark = pytest.mark.django_db

COLUMNS = {
    "id": "gen_random_uuid()", "workflow": "'w'", "queue": "'q' || n % 3", "priority": "n % 5", "phase": "'forward'",
    "attempt": "1", "claims": "1", "crashes": "0", "suspect": "false", "block_reason": "''", "fingerprint": "''",
    "waiting_on": "''", "created_at": "now()", "parent_path": "''", "root_id": "gen_random_uuid()", "detached": "false",
}  # fmt: skip
MADE: list[tuple[str, int, dict[str, str]]] = [
    ("succeeded", 20_000, {"finished_at": "now()"}),
    ("failed", 3_000, {"finished_at": "now()"}),
    ("queued", 6_000, {"queued_at": "now()"}),
    ("queued", 3_000, {"queued_at": "now()", "limit_key": "'k' || n % 7"}),
    ("queued", 3_000, {"queued_at": "now()", "suspect": "true"}),
    ("scheduled", 6_000, {"wake_at": "now()"}),
    ("waiting", 3_000, {"waiting_on": "'event:x'"}),
    ("blocked", 3_000, {"block_reason": "'diverged'"}),
    ("running", 50, {**dict.fromkeys(["lease_token", "leased_by"], "gen_random_uuid()"), "lease_expires_at": "now()"}),
]
MOST = 20


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    with connection.cursor() as cursor:
        for status, count, more in MADE:
            columns = {**COLUMNS, "status": f"'{status}'", **more}
            cursor.execute(
                f"INSERT INTO django_durable_run ({', '.join(columns)})"
                f" SELECT {', '.join(columns.values())} FROM generate_series(1, {count}) n"
            )
        cursor.execute("ANALYZE django_durable_run")
    monkeypatch.setattr(standing, "READY_MOST", MOST)
    monkeypatch.setattr(standing, "OTHERS_MOST", MOST)


def plans_of(call: Callable[[], object]) -> list[Any]:
    found: list[Any] = []

    def explain(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        with context["connection"].connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {sql}", params)
            found.extend(cursor.fetchone()[0])
        return execute(sql, params, many, context)

    with connection.execute_wrapper(explain):
        call()
    return found


def scans_of(plans: list[Any], table: str = "django_durable_run") -> list[str]:
    return re.findall(rf"'Node Type': '([^']*)', [^{{]*'Relation Name': '{table}'", str(plans))


@pytest.mark.usefixtures("full")
def test_backlogs_and_finished_runs_are_not_read() -> None:
    now = timezone.now()
    plans = plans_of(lambda: standing.standing(now - timedelta(hours=1)))
    assert scans_of(plans)
    assert "Seq Scan" not in scans_of(plans)
    # Of 24,000 that wait and 26,000 that are over: twenty of each of what is told, and a look for each line.
    assert sum(map(looked_at, plans)) < 1_500


@pytest.mark.usefixtures("full")
def test_of_children_that_failed_each_parent_s_entry_is_looked_up() -> None:
    """Not all entries that there are, of which PostgreSQL would rather make a hash."""
    columns = {
        "run_id": "gen_random_uuid()", "path": "'child'", "seq": "1", "kind": "'child'", "status": "'failed'",
        "attempts": "1", "started_at": "now()", "awaits": "''", "token": "gen_random_uuid()",
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO django_durable_journalentry ({', '.join(columns)})"
            f" SELECT {', '.join(columns.values())} FROM generate_series(1, 5000) n"
        )
        cursor.execute("ANALYZE django_durable_journalentry")
    parents = JournalEntry.objects.values_list("run_id", flat=True)
    Run.objects.filter(status="failed").update(parent_id=parents[0], parent_path="child")
    for call in (
        lambda: standing.standing(timezone.now() - timedelta(hours=1)),
        lambda: find(Run.objects.all(), Chosen.of({"trouble": "today"}), 10, slice(0, 10)),
        lambda: find(Run.objects.all(), Chosen.of({"status": "failed"}), 10, slice(0, 10), RESUME.of_its_row),
    ):
        assert set(scans_of(plans_of(call), "django_durable_journalentry")) == {"Index Scan"}


@pytest.mark.usefixtures("full")
def test_of_each_line_that_is_overdue_no_more_is_read_whoever_holds_it() -> None:
    Run.objects.filter(status="scheduled").update(wake_at=timezone.now() - timedelta(hours=1))
    Run.objects.filter(status="scheduled", queue="q0").update(workflow="held")
    held = Held(workflows=frozenset({"held"}))
    plans = plans_of(lambda: standing.standing(timezone.now(), held))
    assert "Seq Scan" not in scans_of(plans)
    # Fifteen lines, each of four hundred.
    assert sum(map(looked_at, plans)) < 1_500 + 15 * 3 * (MOST + 1)


@pytest.mark.usefixtures("full")
def test_what_sticks_is_looked_for_among_what_runs() -> None:
    now = timezone.now()
    plans = plans_of(lambda: list(sticking(now)))
    assert "durable_run_leased" in str(plans)
    # Some fifty are running, and 44,000 others are in the table.
    assert sum(map(looked_at, plans)) < 500
