"""S19: a role that reads and writes the tables and cannot change them does for workers, and for whoever starts runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from io import StringIO
from typing import Any

import psycopg
import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import ProgrammingError, connection

from django_durable.client.handle import RunHandle
from django_durable.models import Fire, Run, Schedule
from django_durable.store.database import Database
from django_durable.store.invariants import Bounds
from django_durable.store.invariants.liveness import MOVEMENTS, Patience, examine_movement
from tests.acceptance.traces import wait_for_success
from tests.app import fanning, faults, limits, workflows
from tests.app.models import Counter
from tests.commands.rows import a_run, with_belongings
from tests.docs.reading import ROOT, blocks
from tests.processes import Worker, wait_until
from tests.servers import PostgresServer
from tests.soak.plan import TICK

pytestmark = pytest.mark.django_db(transaction=True)

OWNER, ROLE = "postgres", "shop_worker"
PAGE = ROOT / "docs" / "deployment.md"
SEES_OTHERS = f"GRANT pg_read_all_stats TO {ROLE}"
REFUSED = "permission denied"
OLD = timedelta(days=31)


def as_shown() -> str:
    [shown] = [block.text for block in blocks(PAGE) if block.language == "sql"]
    return shown


def as_little_as_the_engine_needs() -> str:
    """As the page says it below what it shows; the counter is the project's own."""
    engine = [model._meta.db_table for model in apps.get_app_config("django_durable").get_models()]
    return f"""
        CREATE ROLE {ROLE} LOGIN;
        GRANT USAGE ON SCHEMA public TO {ROLE};
        GRANT SELECT, INSERT, UPDATE, DELETE ON {", ".join([*engine, Counter._meta.db_table])} TO {ROLE};
        GRANT SELECT ON django_migrations TO {ROLE};
        REVOKE TEMPORARY ON DATABASE {connection.settings_dict["NAME"]} FROM PUBLIC"""


def execute(*statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def become(user: str) -> None:
    connection.close()
    connection.settings_dict["USER"] = user


@pytest.fixture(params=[as_shown, as_little_as_the_engine_needs])
def url(request: pytest.FixtureRequest, postgres_server: PostgresServer) -> Iterator[str]:
    """What a worker connects as; this process is the role too."""
    make: Callable[[], str] = request.param
    execute(make())
    become(ROLE)
    yield f"postgresql://{ROLE}@/postgres?host={postgres_server.folder}"
    become(OWNER)
    everybody = f"GRANT TEMPORARY ON DATABASE {connection.settings_dict['NAME']} TO PUBLIC"
    execute(f"DROP OWNED BY {ROLE}", f"DROP ROLE {ROLE}", everybody)


def test_it_does_for_all_kinds_of_work(url: str, postgres_server: PostgresServer) -> None:
    logged = postgres_server.log.stat().st_size
    old = with_belongings(a_run(age=OLD))
    # One schedule is the code's, which the worker writes, and one an operator's.
    operators = Schedule.objects.create(workflow=workflows.one_step.name, name="nightly", expression="* * * * * *")
    worker = Worker(env={"DURABLE_TEST_DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "tests.soak.settings"})
    worker.wait_for_start()

    runs: list[RunHandle[Any]] = [
        workflows.doubling.using(idempotency_key="k", tags=["t"]).enqueue(1),
        workflows.doubling_async.enqueue(1),
        workflows.sleepy.enqueue(0.1),
        workflows.parent.enqueue(1),
        fanning.whole.enqueue(5),
        limits.three_a_second.enqueue(),
        *(limits.one_a_tenant.enqueue("a") for _ in range(3)),
        faults.counting.enqueue("once"),
        told_and_paused(),
    ]
    cancelled, failing = workflows.listening.enqueue(), workflows.failing.enqueue()
    cancelled.cancel()
    wait_for_success(*(run.id for run in runs))
    others: list[RunHandle[Any]] = [failing, cancelled]
    ends = ["failed", "cancelled"]
    wait_until(lambda: [run.refresh().status for run in others] == ends, message="the other ends")
    assert Counter.objects.get(name="once").value == 1
    wait_until(lambda: fired(operators) and fired(Schedule.objects.get(workflow=TICK)), message="both to fire")
    wait_until(lambda: not Run.objects.filter(pk=old.pk).exists(), message="retention")

    assert said("durable_check", "--payloads")
    assert said("durable_doctor").endswith("All is well.\n")
    assert worker.stop() == 0
    with_belongings(a_run(age=OLD))
    assert said("durable_prune").startswith("Deleted 1 run")
    assert REFUSED not in worker.log
    assert REFUSED not in postgres_server.log.read_bytes()[logged:].decode()


def told_and_paused() -> RunHandle[Any]:
    run = faults.knocked.enqueue(2)
    run.send_event("knock", 1)
    run.pause()
    run.send_event("knock", 2)
    run.resume()
    return run


def fired(schedule: Schedule) -> bool:
    fires = Fire.objects.filter(schedule_id=schedule.pk)
    return Run.objects.filter(pk__in=fires.values("run_id"), status="succeeded").exists()


def said(command: str, *arguments: str) -> str:
    """What a command prints that ends well. Raises CommandError."""
    out = StringIO()
    call_command(command, *arguments, stdout=out)
    return out.getvalue()


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE django_durable_more (id bigint)",
        "ALTER TABLE django_durable_run ADD COLUMN more bigint",
        "ALTER TABLE django_durable_run DISABLE TRIGGER ALL",
        "DROP TABLE django_durable_hold",
        "TRUNCATE django_durable_hold",
        "CREATE INDEX more ON django_durable_run (id)",
        "CREATE FUNCTION more() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    ],
)
def test_it_changes_no_table(url: str, statement: str) -> None:
    with pytest.raises(ProgrammingError, match=f"{REFUSED}|must be owner"):
        execute(statement)


@pytest.mark.parametrize("url", [as_shown], indirect=True)
def test_what_later_migrations_make_is_for_it_too(url: str) -> None:
    become(OWNER)
    execute("CREATE TABLE later (id bigserial, number int)")
    become(ROLE)
    try:
        execute("INSERT INTO later (number) VALUES (1)", "UPDATE later SET number = 2", "DELETE FROM later")
    finally:
        become(OWNER)
        execute("DROP TABLE later")


def test_what_sessions_of_others_do_it_sees_with_one_grant_more(url: str, postgres_server: PostgresServer) -> None:
    assert f"`{SEES_OTHERS}`" in PAGE.read_text()
    name = connection.settings_dict["NAME"]
    with psycopg.connect(postgres_server.url, dbname=name) as idle, psycopg.connect(postgres_server.url) as owner:
        owner.autocommit = True
        idle.execute("SELECT id FROM django_durable_run")
        owner.execute(SEES_OTHERS)
        wait_until(idle_sessions, message="a session to be idle in a transaction")
        owner.execute(SEES_OTHERS.replace("GRANT", "REVOKE").replace("TO", "FROM"))
        assert idle_sessions() == []


def idle_sessions() -> list[str]:
    [sessions] = [one for one in MOVEMENTS if one.id == "L6"]
    at_once = Patience(bound=0.3, queued=0.3, again=0.3, silence=1.0)
    return [one.problem for one in examine_movement(Database(), sessions, Bounds(), at_once).violations]
