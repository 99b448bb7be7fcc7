"""A database of the released version, runs and all, is migrated by the code of today, which goes on with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from pytest_django.plugin import DjangoDbBlocker

from django_durable import get_run
from django_durable.models import IdempotencyKey, Run
from django_durable.testing import TravelClock, run_until_idle, travel
from tests.fixtures import workflows
from tests.fixtures.rows import insert
from tests.fixtures.schemas import load
from tests.upgrades.databases import catalogue, empty_database, execute
from tests.upgrades.endings import ENDINGS, outcome_of
from tests.upgrades.released import V0_1, Journal, journals, read_journal

pytestmark = [pytest.mark.contract, pytest.mark.django_db]


@pytest.fixture(scope="module")
def upgraded(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Any]]:
    """For this module the tests' connection leads to the upgraded database; the catalogue of a new one."""
    with django_db_blocker.unblock():
        new = catalogue()
        with empty_database(tmp_path_factory.mktemp("upgrade")):
            upgrade(V0_1)
            with django_db_blocker.block():
                yield new


def upgrade(folder: Path) -> None:
    load(connection, folder.joinpath(f"schema.{connection.vendor}.sql").read_text())
    for journal in journals(folder):
        insert(connection, journal.rows)
    call_command("migrate", verbosity=0)


@pytest.fixture
def clock() -> Iterator[TravelClock]:
    with travel(schedules=False) as clock:
        yield clock


@pytest.fixture(params=sorted(ENDINGS))
def journal(request: pytest.FixtureRequest, upgraded: dict[str, Any], db: None, clock: TravelClock) -> Journal:
    """The only one in the database, when it was exported."""
    journal = read_journal(V0_1, request.param)
    Run.objects.exclude(pk__in=journal.runs).delete()
    IdempotencyKey.objects.exclude(run_id__in=journal.runs).delete()
    clock.move_to(journal.exported_at)
    workflows.calls.clear()
    return journal


# --- the tables ------------------------------------------------------------------------------


def test_the_upgraded_tables_are_those_of_a_new_database(upgraded: dict[str, Any]) -> None:
    assert "django_durable_run" in upgraded
    assert catalogue() == upgraded


def test_no_migration_is_missing(upgraded: dict[str, Any]) -> None:
    call_command("migrate", check_unapplied=True, verbosity=0)
    call_command("makemigrations", check_changes=True, dry_run=True, verbosity=0)


def test_all_rows_have_come_along(upgraded: dict[str, Any]) -> None:
    written: Counter[str] = Counter()
    for journal in journals(V0_1):
        written.update({table: len(rows) for table, rows in journal.rows.items()})
    assert written == {table: execute(f"SELECT count(*) FROM {table}")[0][0] for table in written}


def test_nothing_is_wrong_with_them(upgraded: dict[str, Any], clock: TravelClock) -> None:
    clock.move_to(read_journal(V0_1, "steps").exported_at)
    call_command("durable_check", verbosity=0)


# --- the runs --------------------------------------------------------------------------------


def test_a_journal_is_as_it_was(journal: Journal) -> None:
    statuses = {str(run_id): status for run_id, status in Run.objects.values_list("pk", "status")}
    assert statuses == dict(zip(journal.column("run", "id"), journal.column("run", "status"), strict=True))
    for run_id in journal.runs:
        rows = [row for row in journal.rows.get("django_durable_journalentry", []) if row["run_id"] == str(run_id)]
        # With every value and error decoded.
        assert {step.path: step.status for step in get_run(run_id).steps()} == {r["path"]: r["status"] for r in rows}
    assert run_until_idle() == 0, "something was due that was not when it was exported"


def test_a_journal_goes_on_to_its_end(journal: Journal, clock: TravelClock) -> None:
    ending, run = ENDINGS[journal.name], get_run(journal.run)
    assert run.status == ending.found
    before = finished_entries()

    ending.then(run, clock)
    run_until_idle(skip_waits=True)

    assert (run.refresh().status, outcome_of(run)) == (ending.ends, ending.outcome)
    assert workflows.calls == ending.calls
    assert before.items() <= finished_entries().items(), "what was journaled as finished has been written again"
    assert not Run.objects.live().exists()
    call_command("durable_check", verbosity=0)


def finished_entries() -> dict[Any, Any]:
    entries = execute(
        "SELECT run_id, path, kind, status, attempts, value, error, finished_at, token"
        " FROM django_durable_journalentry WHERE status IN ('succeeded', 'failed')"
    )
    return {tuple(entry[:2]): tuple(entry[2:]) for entry in entries}
