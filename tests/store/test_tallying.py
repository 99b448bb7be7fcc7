"""Counts that many processes add to the same rows."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from django_durable.models import Tally
from django_durable.store import tallying
from django_durable.store.database import PrivateDatabase
from django_durable.store.pruning import TALLIED, prune
from django_durable.store.sql.tallies import EVENTS, KEY
from django_durable.store.tallying import Counted, add, detail_of
from tests.store.conftest import Connect
from tests.store.parallel import Threads, answer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]

NOON = datetime(2026, 3, 1, 12, 7, tzinfo=UTC)
TEN = NOON - timedelta(minutes=7)


def rows() -> list[tuple[Any, ...]]:
    """What there is; of the four counts as ``[started, succeeded, failed, cancelled]``."""
    found = Tally.objects.order_by(*KEY).values_list(*KEY, *EVENTS)
    return [(*row[: len(KEY)], list(row[len(KEY) :])) for row in found]


def one(event: str = "started", **more: Any) -> Counted:
    return Counted(**{"minute": NOON, "workflow": "ship", "queue": "mail", "event": event, **more})


def test_each_event_has_its_column(db: PrivateDatabase) -> None:
    add(db, {one("started"): 4, one("succeeded"): 3, one("failed"): 2, one("cancelled"): 1})
    assert rows() == [("runs", NOON, "ship", "mail", "", [4, 3, 2, 1])]


def test_what_is_added_again_is_added_up(db: PrivateDatabase) -> None:
    for count in (1, 10, 100):
        add(db, {one("started"): count, one("failed", bucket=7): count, one("failed", step="pay"): count})
    assert rows() == [
        ("runs", NOON, "ship", "mail", "", [111, 0, 111, 0]),
        ("seconds", TEN, "ship", "mail", "7", [0, 0, 111, 0]),
        ("step", TEN, "ship", "mail", "pay", [0, 0, 111, 0]),
    ]


def test_minutes_workflows_and_queues_are_counted_apart_and_details_by_ten_minutes(db: PrivateDatabase) -> None:
    later = NOON + timedelta(minutes=1)
    kinds = [{}, {"minute": later}, {"workflow": "bill"}, {"queue": "slow"}]
    add(db, {one("succeeded", bucket=3, **kind): 1 for kind in kinds})
    assert [row[1:] for row in rows()] == [
        (NOON, "bill", "mail", "", [0, 1, 0, 0]),
        (NOON, "ship", "mail", "", [0, 1, 0, 0]),
        (NOON, "ship", "slow", "", [0, 1, 0, 0]),
        (later, "ship", "mail", "", [0, 1, 0, 0]),
        (TEN, "bill", "mail", "3", [0, 1, 0, 0]),
        (TEN, "ship", "mail", "3", [0, 2, 0, 0]),
        (TEN, "ship", "slow", "3", [0, 1, 0, 0]),
    ]


def test_names_are_what_they_are(db: PrivateDatabase) -> None:
    hostile = 'x\'; DROP TABLE "run" %s %(id)s {} \\ \N{SNOWMAN}'
    add(db, {one("failed", workflow=hostile, queue=hostile[:100], step=hostile): 1})
    assert rows() == [("step", TEN, hostile, hostile[:100], hostile, [0, 0, 1, 0])]


@settings(max_examples=20)
@given(
    parts=st.lists(
        st.dictionaries(
            st.builds(
                Counted,
                minute=st.integers(0, 12).map(lambda minutes: NOON + timedelta(minutes=minutes)),
                workflow=st.sampled_from(["ship", "bill"]),
                queue=st.just("mail"),
                event=st.sampled_from(["succeeded", "failed"]),
                bucket=st.integers(0, 3),
                step=st.none(),
            ),
            st.integers(1, 1000),
            min_size=1,
        ),
        min_size=1,
        max_size=4,
    )
)
def test_however_they_are_parted_the_sums_are_the_same(parts: list[dict[Counted, int]]) -> None:
    Tally.objects.all().delete()
    db = PrivateDatabase()
    for part in parts:
        add(db, part)
    db.close()
    expected: Counter[tuple[Any, ...]] = Counter()
    for part in parts:
        for one, count in part.items():
            expected["runs", one.minute, one.workflow, "", one.event] += count
            expected["seconds", detail_of(one.minute), one.workflow, str(one.bucket), one.event] += count
    found = {
        (row.kind, row.minute, row.workflow, row.name, event): getattr(row, event)
        for row in Tally.objects.all()
        for event in ("succeeded", "failed")
    }
    assert {key: count for key, count in found.items() if count} == dict(expected)


def test_processes_that_add_to_the_same_rows_never_wait_in_a_circle(connect: Connect, threads: Threads) -> None:
    counts = [one(workflow=f"w{number}") for number in range(40)]

    def work(db: PrivateDatabase, order: list[Counted]) -> None:
        for _ in range(25):
            add(db, dict.fromkeys(order, 1))

    both = [threads.start(work, connect(), order) for order in (counts, counts[::-1])]
    for future in both:
        answer(future)
    assert {row.started for row in Tally.objects.all()} == {50}
    assert Tally.objects.count() == 40


@pytest.mark.parametrize("minute", range(0, 60, 7))
def test_details_begin_at_tens_of_minutes(minute: int) -> None:
    begins = detail_of(NOON.replace(minute=minute, second=59, microsecond=999))
    assert begins == NOON.replace(minute=minute // 10 * 10)


def test_what_is_two_days_old_goes(db: PrivateDatabase) -> None:
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    young, old = now - timedelta(hours=47), now - timedelta(hours=49)
    add(db, {one("failed", minute=minute, bucket=1): 1 for minute in (young, old)})
    add(db, {one("failed", minute=minute, step="pay"): 1 for minute in (young, old)})
    prune(db, 1, dry_run=True)
    assert len(rows()) == 6
    prune(db, 1)
    assert [row[:2] for row in rows()] == [("runs", young), ("seconds", detail_of(young)), ("step", detail_of(young))]


def test_no_more_go_at_once_than_asked_for(db: PrivateDatabase) -> None:
    add(db, {one(workflow=f"w{number}"): 1 for number in range(5)})
    tallying.prune(db, 3, TALLIED)
    assert [row[2] for row in rows()] == ["w3", "w4"]
    tallying.prune(db, 3, TALLIED)
    assert rows() == []
