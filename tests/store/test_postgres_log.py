"""What lines of the log cost, however many others have said: PostgreSQL's plans."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from django_durable.core.journal.journal import Write
from django_durable.core.journal.log import Log, Logged
from django_durable.models import LogLine
from django_durable.store.committing import write_batch
from django_durable.store.database import PrivateDatabase, Row
from django_durable.store.sql import commits
from tests.store.rows import claim, make_run

pytestmark = pytest.mark.django_db(transaction=True)

LINES = """
    INSERT INTO django_durable_logline (run_id, number, at, level, scope, message, place)
    SELECT run.id, number, now(), 20, '', repeat('x', 80), number
    FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, %s)) run, generate_series(1, 20) number"""


class Analyzing(PrivateDatabase):
    """Executes every statement and notes how it scanned the lines."""

    def __init__(self) -> None:
        super().__init__()
        self.scans: list[tuple[str, int]] = []

    def rows(self, sql: str, **parameters: Any) -> list[Row]:
        [(plan,)] = super().rows(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {sql}", **parameters)
        self._look(plan[0]["Plan"])
        return []

    def _look(self, node: dict[str, Any]) -> None:
        name = str(node.get("Relation Name", "")) + str(node.get("Index Name", ""))
        if "logline" in name and "Scan" in node["Node Type"]:
            self.scans.append((node["Node Type"], node["Actual Rows"] * node["Actual Loops"]))
        for child in node.get("Plans", []):
            self._look(child)


@pytest.fixture
def analyzing(transactional_db: None) -> Iterator[Analyzing]:
    db = Analyzing()
    yield db
    db.close()


@pytest.mark.parametrize("is_counted", [False, True], ids=["never analyzed", "analyzed"])
@pytest.mark.parametrize("runs", [100, 2_000])
def test_lines_are_added_by_a_look_at_their_own_run(
    db: PrivateDatabase, analyzing: Analyzing, runs: int, is_counted: bool
) -> None:
    with connection.cursor() as cursor:
        cursor.execute(LINES, [runs])
        if is_counted:
            cursor.execute("ANALYZE django_durable_logline")
    claims = claim(db, *(make_run() for _ in range(10)))
    now = timezone.now()
    for each in claims:
        LogLine.objects.create(run_id=each.run_id, number=1, at=now, level=20, message="a", place=1)
    logs = [Log([Logged(20, "a", now, "", place, is_again=True) for place in range(5)]) for _ in claims]
    write_batch(analyzing, [(each.lease, Write(log=log)) for each, log in zip(claims, logs, strict=True)])
    # For each line that is said: the last one of its run, and the few that the run has.
    assert 0 < sum(rows for _, rows in analyzing.scans) <= 10 * 5 * 5, analyzing.scans
    assert {kind for kind, _ in analyzing.scans} <= {
        "Index Scan",
        "Index Only Scan",
        "Bitmap Heap Scan",
        "Bitmap Index Scan",
    }


def test_what_is_too_much_is_found_by_its_number(analyzing: Analyzing) -> None:
    with connection.cursor() as cursor:
        cursor.execute(LINES, [2_000])
        cursor.execute("ANALYZE django_durable_logline")
    run_id = LogLine.objects.values_list("run_id", flat=True)[0]
    analyzing.rows(commits.shorten_log(), run_id=str(run_id), upto=3)
    assert analyzing.scans and sum(rows for _, rows in analyzing.scans) <= 6, analyzing.scans
    assert LogLine.objects.filter(run_id=run_id).count() == 17
