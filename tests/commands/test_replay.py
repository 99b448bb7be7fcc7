"""``durable_replay``: which runs would not go on with the code that is there now."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from django_durable import AsyncContext, Context
from django_durable.core import registry
from django_durable.management.commands import durable_replay
from django_durable.models import Event, JournalEntry, Payload, Run, Tag
from django_durable.testing import run_until_idle
from django_durable.workflows.definition import Workflow
from django_durable.workflows.options import WorkflowOptions
from tests.commands.conftest import Call
from tests.commands.rows import a_run, an_entry
from tests.commands.test_export import written

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]

NAME = "changing.order"
Deploy = Callable[..., Workflow[Any, Any]]
performed: list[str] = []


def work(name: str) -> str:
    performed.append(name)
    return name


def old(ctx: Context, number: int = 0) -> None:
    ctx.step("reserve", work, "reserve")
    ctx.step("charge", work, "charge")
    ctx.wait_for_event("packed")
    ctx.step("ship", work, "ship")


def renamed(ctx: Context, number: int = 0) -> None:
    ctx.step("reserve", work, "reserve")
    ctx.step("charge card", work, "charge")
    ctx.wait_for_event("packed")


async def awaited(ctx: AsyncContext, number: int = 0) -> None:
    await ctx.step("reserve", work, "reserve")
    await ctx.sleep("charge", 1)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    performed.clear()


@pytest.fixture
def deploy(monkeypatch: pytest.MonkeyPatch) -> Deploy:
    """Put this code in the place of what has the name."""
    registry.definitions()
    monkeypatch.setattr(registry, "_named", {})

    def deploy(fn: Callable[..., Any], name: str = NAME, **options: Any) -> Workflow[Any, Any]:
        workflow = Workflow[Any, Any](fn, WorkflowOptions(name=name, **options))
        registry._named.update(dict.fromkeys([name, *workflow.aliases], workflow))
        return workflow

    return deploy


def waiting(deploy: Deploy, name: str = NAME) -> Any:
    run = deploy(old, name).enqueue()
    run_until_idle()
    performed.clear()
    return run


def test_nothing_to_replay(call: Call, deploy: Deploy) -> None:
    a_run()
    assert call("durable_replay").out == "Replayed 0 runs of 0 workflows: 0 would diverge.\n"


def test_code_that_fits(call: Call, deploy: Deploy) -> None:
    waiting(deploy)
    called = call("durable_replay")
    assert (called.out, called.failed) == ("Replayed 1 run of 1 workflow: 0 would diverge.\n", None)


@pytest.mark.parametrize(
    ("code", "path", "reason"),
    [(renamed, "charge card", "new_call"), (awaited, "charge", "diverged")],
)
def test_code_that_does_not(call: Call, deploy: Deploy, code: Any, path: str, reason: str) -> None:
    run = waiting(deploy)
    deploy(code)
    called = call("durable_replay")
    line, summary = called.out.splitlines()
    assert line.startswith(f"{run.id}  {NAME}  {path}  {reason}: ")
    assert summary == "Replayed 1 run of 1 workflow: 1 would diverge."
    assert called.failed == "1 run would diverge."
    data = call("durable_replay", "--json").data
    [told] = data.pop("divergences")
    assert (told["run"], told["workflow"], told["path"], told["reason"]) == (str(run.id), NAME, path, reason)
    assert line.endswith(told["text"])
    assert data == {"runs": 1, "workflows": 1, "ok": False}


def test_no_step_is_run_and_nothing_is_written(call: Call, deploy: Deploy) -> None:
    run = waiting(deploy)
    # What it waits for has come: an attempt would go on and ship.
    run.send_event("packed")
    tables = (Run, JournalEntry, Payload, Event, Tag)
    before = [list(table.objects.order_by("pk").values()) for table in tables]
    for code in (old, renamed, awaited):
        deploy(code)
        with CaptureQueriesContext(connection) as queries:
            call("durable_replay")
        assert queries.captured_queries and unread(queries) == []
    assert performed == []
    assert [list(table.objects.order_by("pk").values()) for table in tables] == before


def unread(queries: CaptureQueriesContext) -> list[str]:
    return [sql for sql in written(queries) if sql.upper() not in ("BEGIN", "BEGIN IMMEDIATE", "COMMIT", "ROLLBACK")]


def test_what_the_function_itself_writes_is_refused_by_the_database(call: Call, deploy: Deploy) -> None:
    others = [waiting(deploy, "changing.other") for _ in range(2)]
    run = waiting(deploy)

    def code(ctx: Context, number: int = 0) -> None:
        Tag.objects.create(run_id=ctx.run_id, name="written")
        ctx.step("reserve", work, "reserve")

    deploy(code)
    called = call("durable_replay")
    [line] = [line for line in called.out.splitlines() if "raised" in line]
    assert line.startswith(str(run.id)) and "read" in line
    assert "Replayed 3 runs of 2 workflows: 1 would diverge." in called.out
    assert Tag.objects.count() == 0
    # The connection is as it was, for whoever goes on with it.
    Tag.objects.create(run_id=others[0].id, name="written")


def test_a_run_whose_code_fails_in_the_database_leaves_it_to_the_others(call: Call, deploy: Deploy) -> None:
    def code(ctx: Context, number: int = 0) -> None:
        if number == 0:
            Tag.objects.create(run_id=ctx.run_id, name="written")
        elif not Tag.objects.exists():
            old(ctx)

    workflow = deploy(old)
    runs = [workflow.enqueue(number) for number in range(2)]
    run_until_idle()
    deploy(code)
    [line, _] = call("durable_replay").out.splitlines()
    assert line.startswith(str(runs[0].id))


def scribbling(ctx: Context, number: int = 0) -> None:
    Tag.objects.create(run_id=ctx.run_id, name="written")


async def ascribbling(ctx: AsyncContext, number: int = 0) -> None:
    await Tag.objects.acreate(run_id=ctx.run_id, name="written")


@pytest.mark.parametrize("code", [scribbling, ascribbling])
@pytest.mark.parametrize("source", ["live", "file"])
def test_the_database_is_guarded_whoever_writes(
    call: Call, deploy: Deploy, tmp_path: Path, code: Any, source: str
) -> None:
    run = waiting(deploy)
    call("durable_export", str(run.id), "--output", str(tmp_path / "run.json"))
    deploy(code)
    called = call("durable_replay", *(["--file", str(tmp_path / "run.json")] if source == "file" else []))
    assert Tag.objects.count() == 0
    assert "  raised: " in called.out and called.failed == "1 run would diverge."


def test_files_are_replayed_where_there_is_no_database(
    call: Call, deploy: Deploy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = waiting(deploy)
    call("durable_export", str(run.id), "--output", str(tmp_path / "run.json"))

    def away() -> None:
        raise OperationalError("away")

    monkeypatch.setattr(connection, "ensure_connection", away)
    assert call("durable_replay", "--file", str(tmp_path / "run.json")).failed is None
    deploy(scribbling)
    assert call("durable_replay", "--file", str(tmp_path / "run.json")).failed == "1 run would diverge."


def test_whoever_calls_it_in_a_transaction_can_write_afterwards(call: Call, deploy: Deploy) -> None:
    from django.db import transaction

    run = waiting(deploy)
    with transaction.atomic():
        assert call("durable_replay").failed is None
        Tag.objects.create(run_id=run.id, name="written")


def test_only_live_runs_unless_they_are_named(call: Call, deploy: Deploy) -> None:
    over, paused = a_run(workflow=NAME), a_run(workflow=NAME, status="paused")
    for run in (over, paused):
        Payload.objects.create(run_id=run.pk, kind="input", data="{}")
        an_entry(run, path="gone")
    deploy(old)
    assert [one["run"] for one in call("durable_replay", "--json").data["divergences"]] == [str(paused.pk)]
    assert [one["run"] for one in call("durable_replay", over.pk, "--json").data["divergences"]] == [str(over.pk)]
    unknown = uuid4()
    assert call("durable_replay", over.pk, unknown).failed == f"There is no run {unknown}."


def test_of_one_workflow_under_all_its_names(call: Call, deploy: Deploy) -> None:
    for name in (NAME, NAME, "changing.other"):
        waiting(deploy, name)
    assert "Replayed 3 runs of 2 workflows" in call("durable_replay").out
    assert "Replayed 2 runs of 1 workflow:" in call("durable_replay", "--workflow", NAME).out
    deploy(old, "changing.new", aliases=[NAME])
    waiting(deploy, "changing.new")
    deploy(old, "changing.new", aliases=[NAME])
    assert "Replayed 3 runs of 2 workflows" in call("durable_replay", "--workflow", "changing.new").out
    assert "Replayed 0 runs" in call("durable_replay", "--workflow", "changing.unknown").out


def test_a_workflow_that_is_gone(call: Call, deploy: Deploy) -> None:
    run = waiting(deploy)
    registry._named.clear()
    line = call("durable_replay").out.splitlines()[0]
    assert line.startswith(f"{run.id}  {NAME}  -  unknown_workflow: ")


def test_a_sample_has_runs_of_every_workflow(call: Call, deploy: Deploy) -> None:
    for name in (NAME, "changing.other"):
        deploy(old, name)
        for _ in range(6):
            Payload.objects.create(run_id=a_run(workflow=name, status="waiting").pk, kind="input", data="{}")
    assert "Replayed 4 runs of 2 workflows" in call("durable_replay", "--sample", 2).out
    assert "Replayed 12 runs of 2 workflows" in call("durable_replay", "--sample", 100).out


def test_every_run_may_come_into_the_sample() -> None:
    runs = [(uuid4(), "a") for _ in range(5)] + [(uuid4(), "b")]
    drawn = {pk for _ in range(200) for pk in durable_replay._sample(runs, 2)}
    assert drawn == {pk for pk, _ in runs}


def test_batch_by_batch(call: Call, deploy: Deploy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable_replay, "BATCH", 2)
    monkeypatch.setattr("django_durable.client.exporting.IDS", 3)
    deploy(old)
    for _ in range(7):
        run = a_run(workflow=NAME, status="waiting")
        Payload.objects.create(run_id=run.pk, kind="input", data="{}")
        an_entry(run, path="gone")
    data = call("durable_replay", "--json").data
    assert len({one["run"] for one in data["divergences"]}) == data["runs"] == 7


def test_files_are_replayed_without_a_row(call: Call, deploy: Deploy, tmp_path: Path) -> None:
    runs = [waiting(deploy) for _ in range(2)]
    files = [tmp_path / "one.json", tmp_path / "two.json"]
    for run, file in zip(runs, files, strict=True):
        call("durable_export", run.id, "--output", file)
    Run.objects.all().delete()
    JournalEntry.objects.all().delete()
    arguments = [part for file in files for part in ("--file", file)]
    with CaptureQueriesContext(connection) as queries:
        assert call("durable_replay", *arguments).out == "Replayed 2 runs of 1 workflow: 0 would diverge.\n"
        deploy(renamed)
        told = call("durable_replay", *arguments, "--json").data["divergences"]
    assert [(one["run"], one["reason"]) for one in told] == [(str(run.id), "new_call") for run in runs]
    assert unread(queries) == []
    assert performed == []


def test_files_that_cannot_be_read(call: Call, deploy: Deploy, tmp_path: Path) -> None:
    file = tmp_path / "runs.json"
    assert "No such file" in (call("durable_replay", "--file", file).failed or "")
    for text, told in (("{", "cannot be read"), ("[1]", "has no run in it"), ('{"format": 1}', "has no run in it")):
        file.write_text(text)
        assert told in (call("durable_replay", "--file", file).failed or "")
    file.write_text(json.dumps([]))
    assert call("durable_replay", "--file", file).failed is None


def test_sources_that_exclude_each_other(call: Call) -> None:
    for arguments in (["--file", "x", "--sample", 1], ["--file", "x", uuid4()], ["--sample", 1, uuid4()]):
        assert call("durable_replay", *arguments).failed == "Name runs, or --file, or --sample: only one of them."
