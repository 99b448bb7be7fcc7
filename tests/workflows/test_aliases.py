"""Names that a workflow had: what was begun under them goes on, and what is begun has the new one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from django.core.checks import run_checks

import django_durable
from django_durable import Context, Cron, durable_workflow, get_workflow
from django_durable.admin.filters import WorkflowFilter
from django_durable.core import registry
from django_durable.core.journal.states import BlockReason, Status
from django_durable.exceptions import DuplicateWorkflow, IdempotencyConflict
from django_durable.models import IdempotencyKey, Run, Schedule
from django_durable.store.database import Database
from django_durable.store.fitting import block_unknown, unblock_known
from django_durable.store.invariants import INVARIANTS, violations
from django_durable.testing import run_until_idle
from django_durable.worker.loops.synchronise import Synchronise
from django_durable.workflows.registry import declared, workflows

pytestmark = pytest.mark.contract
in_database = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    registry.definitions()
    for name in ("_named", "_duplicates", "_unnamed"):
        monkeypatch.setattr(registry, name, type(getattr(registry, name))())


def old_code(ctx: Context, number: int = 1) -> int:
    ctx.step("first", lambda: number)
    ctx.wait_for_event("go")
    return -1


def new_code(ctx: Context, number: int = 1) -> int:
    first = ctx.step("first", lambda: number * 1000)
    ctx.wait_for_event("go")
    return first


def before_the_rename(**options: Any) -> Any:
    registry._named.clear()
    workflow = durable_workflow(name="shop.order", **options)(old_code)
    registry.definitions()
    return workflow


def after_the_rename(**options: Any) -> Any:
    registry._named.clear()
    workflow = durable_workflow(name="shop.fulfil", aliases=["shop.purchase", "shop.order"], **options)(new_code)
    registry.definitions()
    return workflow


# --- names -----------------------------------------------------------------------------------


def test_it_is_found_under_each_of_its_names() -> None:
    workflow = after_the_rename()
    assert workflow.aliases == ("shop.purchase", "shop.order")
    assert [get_workflow(name) for name in ("shop.fulfil", "shop.purchase", "shop.order")] == [workflow] * 3
    assert set(workflows()) == {"shop.fulfil", "shop.purchase", "shop.order"}
    assert declared() == {"shop.fulfil": workflow}


@pytest.mark.parametrize(
    ("name", "aliases"),
    [("shop.order", ()), ("shop.other", ["shop.order"]), ("shop.other", ["shop.fulfil"]), ("shop.fulfil", ())],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_names_and_aliases_of_others_are_refused(name: str, aliases: list[str], is_first: bool) -> None:
    declare: list[Callable[[], Any]] = [
        lambda: durable_workflow(name=name, aliases=aliases)(old_code),
        lambda: durable_workflow(name="shop.fulfil", aliases=["shop.order"])(new_code),
    ]
    for one in declare if is_first else declare[::-1]:
        one()
    for _ in range(2):
        with pytest.raises(DuplicateWorkflow, match=r"Two workflows are called 'shop\.(order|fulfil)'"):
            registry.definitions()
    assert [message.id for message in run_checks(tags=["durable"])].count("django_durable.E030") == 1


def test_a_module_that_is_imported_again_may_have_dropped_an_alias() -> None:
    durable_workflow(name="shop.fulfil", aliases=["shop.order"])(new_code)
    assert set(workflows()) == {"shop.fulfil", "shop.order"}
    again = durable_workflow(name="shop.fulfil")(new_code)
    assert workflows() == {"shop.fulfil": again}


# --- runs ------------------------------------------------------------------------------------


@in_database
def test_a_run_of_before_goes_on_with_the_new_function() -> None:
    run = before_the_rename().enqueue(7)
    run_until_idle()
    after_the_rename()
    run.send_event("go")
    run_until_idle()
    assert run.refresh().status == Status.SUCCEEDED
    assert run.result() == 7
    assert (run.workflow, run.run.claims) == ("shop.order", 2)


@in_database
def test_new_runs_have_the_new_name() -> None:
    workflow = after_the_rename()
    runs = [workflow.enqueue(1), django_durable.enqueue("shop.order", number=1)]
    assert [run.workflow for run in runs] == ["shop.fulfil"] * 2


@in_database
def test_its_runs_are_those_of_all_its_names() -> None:
    before_the_rename().enqueue()
    workflow: Any = after_the_rename()
    workflow.enqueue()
    runs: Any = Run.objects
    assert [runs.for_workflow(which).count() for which in (workflow, "shop.fulfil", "shop.order")] == [2, 1, 1]


@in_database
def test_what_is_begun_anew_has_the_new_name_too() -> None:
    run = before_the_rename().enqueue(7)
    run_until_idle()
    after_the_rename()
    again = [run.rerun(), run.fork("go")]
    assert [one.workflow for one in again] == ["shop.fulfil"] * 2
    for one in again:
        one.send_event("go")
    run_until_idle()
    assert [one.refresh().status for one in again] == [Status.SUCCEEDED] * 2
    # The one was done by the new code from its beginning, the other has what the old code had done.
    assert [one.result() for one in again] == [7000, 7]


@in_database
def test_blocked_runs_of_before_are_taken_up() -> None:
    run = before_the_rename().enqueue()
    block_unknown(Database(), ["shop.fulfil"], 10)
    assert run.refresh().run.block_reason == BlockReason.UNKNOWN_WORKFLOW
    after_the_rename()
    fingerprints = {name: workflow.fingerprint for name, workflow in workflows().items()}
    assert [one.pk for one in unblock_known(Database(), fingerprints, ["default"])] == [run.id]
    assert run.refresh().status == Status.QUEUED


def test_the_admin_lists_runs_under_each_of_the_names() -> None:
    after_the_rename()
    choices: Any = WorkflowFilter.lookups(cast(Any, None), cast(Any, None), None)
    assert [name for name, _ in choices] == ["shop.fulfil", "shop.order", "shop.purchase"]


# --- idempotency keys ------------------------------------------------------------------------


def keyed(workflow: Any, number: int = 1, **options: Any) -> Any:
    return workflow.using(idempotency_key="order-1", **options).enqueue(number)


def holds(invariant: str) -> bool:
    [one] = [one for one in INVARIANTS if one.id == invariant]
    return not violations(Database(), one, limit=5, settled=0)


@in_database
def test_a_key_of_before_finds_the_run_of_before() -> None:
    run = keyed(before_the_rename())
    workflow = after_the_rename()
    assert keyed(workflow) == run
    with pytest.raises(IdempotencyConflict, match="with another input"):
        keyed(workflow, 2)
    with pytest.raises(IdempotencyConflict, match="it is taken"):
        keyed(workflow, on_conflict="reject")
    assert Run.objects.count() == IdempotencyKey.objects.count() == 1
    assert holds("I13")


@in_database
def test_code_of_before_finds_the_run_that_the_new_one_has_started() -> None:
    """Both serve while the rename is deployed, and one key is one run."""
    run = keyed(after_the_rename())
    assert keyed(before_the_rename()) == run
    assert keyed(after_the_rename()) == run
    assert Run.objects.count() == 1
    assert holds("I13")


@in_database
def test_a_key_stands_when_the_alias_has_gone() -> None:
    run = keyed(after_the_rename())
    registry._named.clear()
    assert keyed(durable_workflow(name="shop.fulfil")(new_code)) == run


@in_database
def test_a_key_that_names_a_run_of_another_workflow_is_still_seen() -> None:
    run = before_the_rename().enqueue()
    IdempotencyKey.objects.create(
        workflow="other", key="k", key_hash="h", run_id=run.id, input_hash="i", expires_at="2100-01-01T00:00:00Z"
    )
    assert not holds("I13")


# --- schedules -------------------------------------------------------------------------------


@in_database
def test_its_schedules_are_declared_once() -> None:
    after_the_rename(cron=[Cron("@daily"), Cron("@hourly", name="often")])
    assert [message for message in run_checks(tags=["durable"]) if message.id == "django_durable.E032"] == []
    Synchronise().tick()
    assert set(Schedule.objects.values_list("workflow", "name")) == {
        ("shop.fulfil", "shop.fulfil"),
        ("shop.fulfil", "often"),
    }
