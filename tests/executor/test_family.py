"""Parents and children over generations: cancellation and deadline go down the tree, errors come up."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from django_durable import Context, Retry, durable_workflow, get_run
from django_durable.client.handle import RunHandle
from django_durable.core.journal.states import Status
from django_durable.exceptions import ChildFailed, JoinError, RunFailed
from django_durable.models import Run
from django_durable.queues.database import DatabaseQueue
from django_durable.store.database import Database
from django_durable.testing import run_until_idle, travel
from django_durable.worker.loops.unwanted import Unwanted

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]
ONCE = Retry(max_attempts=1)


@durable_workflow(name="family.leaf", retry=ONCE)
def leaf(ctx: Context, what: Any = None) -> Any:
    if what == "broken":
        raise ValueError("no such luck")
    return ctx.wait_for_event("go").payload


@durable_workflow(name="family.middle", retry=ONCE)
def middle(ctx: Context, what: Any) -> Any:
    ctx.start_workflow("gone", leaf.using(detached=True))
    ctx.start_workflow("aside", leaf)
    return ctx.map("leaves", leaf, [what, what])


@durable_workflow(name="family.root", retry=ONCE)
def root(ctx: Context, what: Any = None) -> Any:
    return ctx.map("middles", middle, [what, what])


def statuses(**filters: Any) -> list[tuple[str, str]]:
    return sorted(Run.objects.filter(**filters).values_list("parent_path", "status"))


def depth_of(run: Run) -> int:
    return 0 if run.parent is None else 1 + depth_of(run.parent)


# --- cancellation ----------------------------------------------------------------------------


def test_a_cancellation_goes_down_three_levels_and_through_maps_but_not_to_the_detached() -> None:
    run = root.enqueue()
    run_until_idle()
    runs = list(Run.objects.select_related("parent__parent__parent"))
    assert sorted(depth_of(one) for one in runs) == [0, 1, 1, *[2] * 8]
    assert {one.status for one in runs} == {Status.WAITING}
    run.cancel("enough")
    run_until_idle()
    assert statuses(detached=False) == sorted(
        [("", "cancelled")]
        + [(f"middles[{n}]", "cancelled") for n in range(2)]
        + [(path, "cancelled") for path in ("aside", "leaves[0]", "leaves[1]") for _ in range(2)]
    )
    assert statuses(detached=True) == [("gone", "waiting")] * 2
    reasons = {one.audit.get().reason for one in Run.objects.filter(detached=False, parent__isnull=False)}
    assert reasons == {"parent cancelled: enough"}


def test_a_child_that_is_cancelled_takes_its_own_tree_along_and_no_sibling() -> None:
    run = root.enqueue()
    run_until_idle()
    first, second = Run.objects.filter(parent_id=run.id).order_by("parent_path")
    get_run(first.pk).cancel()
    run_until_idle()
    assert {status for _, status in statuses(parent=first, detached=False)} == {"cancelled"}
    assert {status for _, status in statuses(parent=second)} == {"waiting"}
    assert run.refresh().status == Status.WAITING


# --- a race that a branch with children loses ------------------------------------------------


@durable_workflow(name="family.racing", retry=ONCE)
def racing(ctx: Context) -> Any:
    def slow(ctx: Context) -> Any:
        ctx.start_workflow("gone", leaf.using(detached=True))
        return ctx.map("middles", middle, [None])

    def quick(ctx: Context) -> Any:
        return ctx.wait_for_event("won").payload

    return ctx.race("any", {"slow": slow, "quick": quick})


def test_a_lost_race_cancels_what_its_branch_waits_for_with_all_below_and_leaves_the_detached() -> None:
    run = racing.enqueue()
    run_until_idle()
    run.send_event("won", 1)
    run_until_idle()
    assert run.result(timeout=0)[0] == "quick"
    assert statuses(detached=True) == [("any/slow/gone", "waiting"), ("gone", "waiting")]
    below = [("any/slow/middles[0]", "cancelled"), ("aside", "cancelled")]
    assert statuses(detached=False, parent__isnull=False) == [
        *below,
        ("leaves[0]", "cancelled"),
        ("leaves[1]", "cancelled"),
    ]


def test_the_sweep_cancels_them_where_the_parent_s_process_died_before_it_could(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Right after the commit that says who has won."""
    run = racing.enqueue()
    run_until_idle()
    with monkeypatch.context() as patch:
        patch.setattr("django_durable.testing.committing.cancel_unwanted", lambda *_: None)
        run.send_event("won", 1)
        run_until_idle()
    assert run.result(timeout=0)[0] == "quick"
    assert {status for _, status in statuses(parent__isnull=False)} == {"waiting"}
    sweep = Unwanted(Database(), DatabaseQueue())
    assert sweep.tick() == 4
    run_until_idle()
    assert {status for _, status in statuses(parent__isnull=False, detached=False)} == {"cancelled"}
    assert {status for _, status in statuses(detached=True)} == {"waiting"}
    assert sweep.tick() == 0


# --- the deadline ----------------------------------------------------------------------------


@durable_workflow(name="family.bounded", retry=ONCE)
def bounded(ctx: Context) -> None:
    ctx.start_workflow("detached", leaf.using(detached=True))
    ctx.start_workflow("aside", leaf)
    ctx.start_workflow("shorter", leaf.using(timeout=60))
    ctx.start_workflow("longer", leaf.using(timeout=timedelta(days=9)))
    ctx.start_workflow("detached shorter", leaf.using(detached=True, timeout=60))
    ctx.map("middles", middle, [None])


def test_attached_children_have_no_longer_than_their_parent_and_detached_ones_their_own_time() -> None:
    with travel() as clock:
        run = bounded.using(timeout=3600).enqueue()
        run_until_idle()
        deadline = run.refresh().run.deadline_at
        found = dict(Run.objects.filter(parent_id=run.id).values_list("parent_path", "deadline_at"))
        assert {path for path, at in found.items() if at == deadline} == {"aside", "longer", "middles[0]"}
        assert found["detached"] is None
        for path in ("shorter", "detached shorter"):
            assert deadline - found[path] > timedelta(minutes=58)
        below = Run.objects.filter(parent__parent_id=run.id)
        assert {(one.detached, one.deadline_at) for one in below} == {(True, None), (False, deadline)}
        clock.advance(hours=2)
        run_until_idle()
    with pytest.raises(RunFailed, match="RunTimeout"):
        run.result(timeout=0)
    assert {status for _, status in statuses(detached=False)} == {"failed"}
    assert statuses(detached=True) == [("detached", "waiting"), ("detached shorter", "failed"), ("gone", "waiting")]


# --- failures come up ------------------------------------------------------------------------


@durable_workflow(name="family.telling", retry=ONCE)
def telling(ctx: Context, what: str) -> Any:
    try:
        ctx.map("leaves", leaf, ["fine", what])
    except JoinError as error:
        return {index: dict(told) for index, told in error.errors.items()}


def test_a_map_tells_of_each_child_that_failed_which_it_was_and_with_what() -> None:
    run = telling.enqueue("broken")
    run_until_idle()
    fine, broken = Run.objects.filter(parent_id=run.id).order_by("parent_path")
    get_run(fine.pk).send_event("go")
    run_until_idle()
    [(index, error)] = run.result(timeout=0).items()
    assert index == 1
    assert (UUID(error["run"]), error["status"]) == (broken.pk, "failed")
    assert (error["type"], error["message"]) == ("ValueError", "no such luck")


def test_a_map_tells_of_a_child_that_was_cancelled() -> None:
    run = telling.enqueue("fine too")
    run_until_idle()
    first, second = Run.objects.filter(parent_id=run.id).order_by("parent_path")
    get_run(first.pk).send_event("go")
    get_run(second.pk).cancel("not needed")
    run_until_idle()
    [(index, error)] = run.result(timeout=0).items()
    assert (index, UUID(error["run"]), error["status"], error["type"]) == (1, second.pk, "cancelled", "RunCancelled")


@durable_workflow(name="family.chain", retry=ONCE)
def chain(ctx: Context, depth: int) -> Any:
    return ctx.run_workflow("leaf", leaf, "broken") if depth == 0 else ctx.run_workflow("chain", chain, depth - 1)


@durable_workflow(name="family.catching", retry=ONCE)
def catching(ctx: Context) -> Any:
    try:
        ctx.run_workflow("chain", chain, 1)
    except ChildFailed as error:
        return [str(error.run_id), error.error["type"], error.error["message"]]


def error_of(run: RunHandle[Any]) -> dict[str, Any]:
    with pytest.raises(RunFailed) as caught:
        run.result(timeout=0)
    return caught.value.error


def test_a_failure_comes_up_three_levels_with_the_run_and_the_error_of_each() -> None:
    run = catching.enqueue()
    run_until_idle()
    top = Run.objects.get(parent_path="chain", parent_id=run.id)
    lower = Run.objects.get(parent_path="chain", parent=top)
    lowest = Run.objects.get(parent_path="leaf", parent=lower)
    run_id, kind, message = run.result(timeout=0)
    assert (run_id, kind) == (str(top.pk), "django_durable.exceptions.ChildFailed")
    for said in (str(lower.pk), str(lowest.pk), "ValueError: no such luck"):
        assert said in message
    assert error_of(get_run(lowest.pk))["message"] == "no such luck"
