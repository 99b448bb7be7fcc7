"""Runs come into being in the caller's transaction, with input and tags, now or later by the database's clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from django_durable.core.journal.journal import Write
from django_durable.core.journal.states import Status
from django_durable.core.payloads.codec import decode, encode
from django_durable.models import IdempotencyKey, JournalEntry, Payload, Run, Tag
from django_durable.queues.ready import Ready
from django_durable.store.committing import write_batch
from django_durable.store.database import Database, PrivateDatabase
from django_durable.store.starting import start_runs
from tests.app.workflows import doubling
from tests.store.rows import at, entries, fresh, journal_row, new_run, payload, running, status_of, step_entry

pytestmark = pytest.mark.django_db(transaction=True)

HOUR = timedelta(hours=1)
EAST = timezone(timedelta(hours=9))


@pytest.fixture(params=["django", "private"])
def any_db(request: pytest.FixtureRequest, db: PrivateDatabase) -> Database:
    """Callers start runs on their own connection, the engine on one that binds parameters in the server."""
    return db if request.param == "private" else Database()


def start(db: Database, **more: Any) -> tuple[Run, list[Ready]]:
    new = new_run(**more)
    ready = start_runs(db, [new])
    return fresh(new.id), ready


def is_near(found: datetime | None, expected: datetime) -> bool:
    return found is not None and abs(found - expected) < timedelta(seconds=10)


def test_a_run_has_the_columns_that_its_starter_decides(any_db: Database):
    parent = new_run()
    run, ready = start(
        any_db,
        queue="q",
        priority=-7,
        max_attempts=2,
        parent_id=parent.id,
        parent_path="p",
        root_id=parent.id,
        detached=True,
    )
    assert (run.workflow, run.queue, run.priority, run.max_attempts) == ("tests.work", "q", -7, 2)
    assert (run.parent_id, run.parent_path, run.root_id, run.detached) == (parent.id, "p", parent.id, True)
    assert (run.status, run.phase, run.attempt, run.claims, run.crashes) == ("queued", "forward", 1, 0, 0)
    assert is_near(run.created_at, at(timedelta(0)))
    assert run.queued_at == run.created_at
    assert (run.wake_at, run.deadline_at, run.started_at) == (None, None, None)
    assert payload(run, "input") == "[]"
    assert ready == [Ready(run.pk, "q", -7)]


def test_a_root_is_its_own_root(any_db: Database):
    run, _ = start(any_db)
    assert run.root_id == run.pk


@pytest.mark.parametrize("count", [1, 2], ids=["one", "several"])
@pytest.mark.parametrize(
    ("when", "starts_in"),
    [
        ({"run_after": 3600.0}, HOUR),
        ({"run_after": 0.0}, None),
        ({"run_after": -3600.0}, None),
        ({"run_at": HOUR}, HOUR),
        ({"run_at": -HOUR}, None),
    ],
    ids=str,
)
def test_a_run_starts_later_or_at_once(any_db: Database, when: dict[str, Any], starts_in: timedelta | None, count: int):
    """And has its whole time from then on."""
    given = {name: at(value).astimezone(EAST) if name == "run_at" else value for name, value in when.items()}
    new = [new_run(**given, deadline_after=60.0) for _ in range(count)]
    ready = start_runs(any_db, new)
    for run in map(fresh, [one.id for one in new]):
        if starts_in is None:
            assert (run.status, run.wake_at) == (Status.QUEUED, None)
        else:
            assert (run.status, run.queued_at) == (Status.SCHEDULED, None)
            assert is_near(run.wake_at, at(starts_in))
        assert is_near(run.deadline_at, at((starts_in or timedelta(0)) + timedelta(seconds=60)))
    # A worker need not be told of what nobody may start yet; what may start now must not wait for the sweep.
    assert ready == ([] if starts_in else [Ready(one.id, "default", 0) for one in new])


def test_the_nearer_deadline_holds(any_db: Database):
    near, far = at(HOUR), at(5 * HOUR)
    assert is_near(start(any_db, deadline_at=near, deadline_after=36_000.0)[0].deadline_at, near)
    assert is_near(start(any_db, deadline_at=far, deadline_after=3600.0)[0].deadline_at, near)
    assert is_near(start(any_db, deadline_at=near)[0].deadline_at, near)


def test_an_instant_is_kept_to_the_microsecond(any_db: Database):
    moment = datetime(2190, 2, 28, 23, 59, 59, 123456, tzinfo=UTC)
    run, _ = start(any_db, run_at=moment.astimezone(EAST), deadline_at=moment.replace(microsecond=0))
    assert (run.wake_at, run.deadline_at) == (moment, moment.replace(microsecond=0))


@pytest.mark.behaviour("RUN-10a")
def test_many_runs_are_started_all_or_none(any_db: Database):
    runs = [new_run(tags=(f"tag {n}", "all")) for n in range(20)]
    assert start_runs(any_db, runs) == [Ready(run.id, "default", 0) for run in runs]
    assert (Run.objects.count(), Payload.objects.count(), Tag.objects.count()) == (20, 20, 40)
    assert set(Run.objects.filter(tags__name="tag 3").values_list("pk", flat=True)) == {runs[3].id}
    with pytest.raises(IntegrityError):
        start_runs(any_db, [new_run(), new_run(id=runs[0].id), new_run()])
    assert (Run.objects.count(), Payload.objects.count()) == (20, 20)


def test_an_id_that_is_taken_is_an_error_and_never_an_overwrite(any_db: Database):
    run, _ = start(any_db, input="[1]")
    with pytest.raises(IntegrityError):
        start(any_db, id=run.pk, input="[2]")
    assert payload(run, "input") == "[1]"


@pytest.mark.behaviour("RUN-10b")
def test_a_transaction_that_is_rolled_back_leaves_nothing(db: PrivateDatabase):
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        doubling.enqueue(number=1)
        doubling.enqueue_many([{"number": n} for n in range(3)])
        doubling.using(idempotency_key="k", tags=["t"]).enqueue(number=2)
        assert Run.objects.count() == 5
        raise ZeroDivisionError
    assert [model.objects.count() for model in (Run, Payload, Tag, IdempotencyKey)] == [0, 0, 0, 0]


@pytest.mark.behaviour("RUN-19a")
def test_nobody_sees_a_run_before_the_transaction_that_starts_it_is_over(db: PrivateDatabase):
    with transaction.atomic():
        handle = doubling.enqueue(number=1)
        # SQLite lets others read meanwhile, and PostgreSQL too.
        assert db.rows("SELECT count(*) FROM django_durable_run") == [(0,)]
    assert db.rows("SELECT count(*) FROM django_durable_run") == [(1,)]
    assert status_of(handle.id) == Status.QUEUED


# --- texts -----------------------------------------------------------------------------------

TEXTS = {
    "NUL": "\x00 and \\u0000",
    "surrogates": "\ud800 \udfff \U0001f600",
    "quotes": "' \" \\ %s %% %(x)s $1 {} $$ ; --",
    "lines": "\r\n\t\v\f\x1b[0m\u2028\u2029",
    "right to left": "\u202e\u05d0\u0627\ufeff",
    "json in json": '{"a": [1, null], "$": "x"}',
    "1 MB": "\u00e4\x00'" * 350_000,
}


@pytest.mark.parametrize("count", [1, 2], ids=["one", "several"])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_text_survives_every_way_into_the_database(any_db: Database, text: str, count: int):
    encoded = encode({text: [text]}) if len(text) < 1000 else encode([text])
    runs = [new_run(input=encoded) for _ in range(count)]
    start_runs(any_db, runs)
    claim = running(any_db)
    child = new_run(parent_id=claim.run_id, parent_path="c", input=encoded)
    entry = step_entry(value=text)
    entry.error = encoded
    write_batch(any_db, [(claim.lease, Write(entries(entry), children=[child], progress=encoded))])
    for run_id in (*[run.id for run in runs], child.id):
        assert payload(run_id, "input") == encoded
    assert payload(claim.run_id, "progress") == encoded
    stored = JournalEntry.objects.get()
    assert (decode(stored.value), stored.error) == (text, encoded)


def test_a_number_is_the_same_number_afterwards(any_db: Database):
    """jsonb would make 100 of 1E2 and drop what a double cannot hold; text does not."""
    encoded = '[1E2,-0.0,0.1,12345678901234567890123456789,{"b":1,"a":2,"b":3}]'
    run, _ = start(any_db, input=encoded)
    assert payload(run, "input") == encoded


def test_names_with_odd_characters_are_kept(any_db: Database):
    name = "w'o\"r%k\\ {x} %s \U0001f600"
    run, _ = start(any_db, workflow=name, tags=(name,), queue="q", parent_path=name)
    assert (run.workflow, run.parent_path) == (name, name)
    assert [tag.name for tag in run.tags.all()] == [name]
    assert journal_row(run, step_entry(name)).path == name
