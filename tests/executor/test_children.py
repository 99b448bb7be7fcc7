"""Children on a real database: started once, waited for, their ends told, cancelled along or not."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from django_durable import Context, NonRetriableError, Retry, RollbackError, durable_workflow, get_run
from django_durable.client.handle import RunHandle
from django_durable.core.journal.states import Status
from django_durable.exceptions import ChildFailed, RunCancelled, RunFailed, StepTimeout
from django_durable.models import IdempotencyKey, Run
from django_durable.testing import run_until_idle

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]
ONCE = Retry(max_attempts=1)
calls: list[Any] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()


def children_of(run: RunHandle[Any]) -> list[Run]:
    return list(Run.objects.filter(parent_id=run.id).order_by("id"))


@durable_workflow(name="children.pack", retry=ONCE, step_retry=ONCE)
def pack(ctx: Context, what: str) -> str:
    calls.append(what)
    if what == "glass":
        raise ValueError("broken")
    if what == "air":
        ctx.wait_for_event("breath")
    return f"packed {what}"


@durable_workflow(name="children.ship", retry=Retry(max_attempts=3, initial=0, maximum=0))
def ship(ctx: Context, what: str, is_caught: bool = False) -> Any:
    try:
        return ctx.run_workflow("pack", pack, what)
    except ChildFailed as error:
        if not is_caught:
            raise
        return [error.step, str(error.run_id), error.status, error.error["type"], error.error["message"]]


@pytest.mark.behaviour("CHILD-01c")
def test_a_child_s_value_comes_back() -> None:
    run = ship.enqueue("books")
    run_until_idle()
    assert run.result(timeout=0) == "packed books"
    [child] = children_of(run)
    assert (child.workflow, child.parent_path, child.root_id, child.status) == (
        "children.pack",
        "pack",
        run.id,
        Status.SUCCEEDED,
    )
    assert calls == ["books"]


@pytest.mark.behaviour("RUN-13a")
def test_waiting_for_a_child_holds_nothing() -> None:
    run = ship.enqueue("air")
    run_until_idle()
    assert run.refresh().status == Status.WAITING
    assert run.why().reason == "waiting: child"
    assert run.run.lease_token is None


@pytest.mark.behaviour("CHILD-01d")
def test_a_child_that_fails_fails_its_parent_once() -> None:
    run = ship.enqueue("glass")
    run_until_idle()
    with pytest.raises(RunFailed) as caught:
        run.result(timeout=0)
    error = caught.value.error
    assert error["type"] == "django_durable.exceptions.ChildFailed"
    assert error["step"] == "pack"
    assert "ValueError: broken" in error["message"]
    # Not retried as a whole: the child had its own attempts.
    assert run.attempt == 1
    assert calls == ["glass"]


def test_a_failure_that_is_caught() -> None:
    run = ship.enqueue("glass", is_caught=True)
    run_until_idle()
    [child] = children_of(run)
    assert run.result(timeout=0) == ["pack", str(child.pk), "failed", "ValueError", "broken"]


def test_a_child_that_is_cancelled_tells_its_parent() -> None:
    run = ship.enqueue("air", is_caught=True)
    run_until_idle()
    [child] = children_of(run)
    get_run(child.pk).cancel("no air")
    run_until_idle()
    assert run.result(timeout=0)[:4] == ["pack", str(child.pk), "cancelled", "RunCancelled"]


@pytest.mark.behaviour("CHILD-01a")
def test_a_parent_that_is_retried_starts_its_child_once() -> None:
    @durable_workflow(name="children.flaky", retry=Retry(max_attempts=3, initial=0, maximum=0))
    def flaky(ctx: Context) -> Any:
        started = ctx.start_workflow("aside", pack, "aside")
        value = ctx.run_workflow("inside", pack, "inside")
        if ctx.attempt < 3:
            raise OSError
        return [str(started), value]

    run = flaky.enqueue()
    run_until_idle()
    children = children_of(run)
    assert run.result(timeout=0) == [str(children[0].pk), "packed inside"]
    assert len(children) == 2
    assert sorted(calls) == ["aside", "inside"]


@pytest.mark.behaviour("CHILD-01b")
def test_children_in_a_loop_by_key() -> None:
    @durable_workflow(name="children.loop")
    def loop(ctx: Context) -> list[str]:
        return [ctx.run_workflow("pack", pack.using(key=turn), str(turn)) for turn in range(3)]

    run = loop.enqueue()
    run_until_idle()
    assert run.result(timeout=0) == ["packed 0", "packed 1", "packed 2"]
    assert [child.parent_path for child in children_of(run)] == ["pack[0]", "pack[1]", "pack[2]"]


def test_options_of_children() -> None:
    @durable_workflow(name="children.options")
    def options(ctx: Context) -> UUID:
        return ctx.start_workflow("pack", pack.using(queue="vip", priority=7, max_attempts=9, run_after=3600), "x")

    run = options.enqueue()
    run_until_idle()
    child = get_run(run.result(timeout=0)).run
    assert (child.queue, child.priority, child.max_attempts, child.status) == ("vip", 7, 9, Status.SCHEDULED)


def test_children_carry_their_tags() -> None:
    @durable_workflow(name="children.tagged")
    def tagged(ctx: Context) -> str:
        ctx.start_workflow("aside", pack.using(tags=["red", "blue", "red"]), "a")
        return ctx.run_workflow("inside", pack.using(tags=["red"]), "b")

    run = tagged.enqueue()
    run_until_idle()
    assert run.result(timeout=0) == "packed b"
    found = {child.parent_path: set(child.tags.values_list("name", flat=True)) for child in children_of(run)}
    assert found == {"aside": {"red", "blue"}, "inside": {"red"}}
    assert Run.objects.tagged("red", "blue").count() == 1


def test_a_child_s_input_is_validated() -> None:
    @durable_workflow(name="children.unfit", retry=ONCE)
    def unfit(ctx: Context) -> None:
        ctx.run_workflow("pack", pack, "too", "many")

    run = unfit.enqueue()
    run_until_idle()
    with pytest.raises(RunFailed, match=r"Input of children\.pack: too many positional arguments"):
        run.result(timeout=0)
    assert children_of(run) == []


def test_a_child_takes_no_idempotency_key() -> None:
    @durable_workflow(name="children.keyed", retry=ONCE)
    def keyed(ctx: Context) -> None:
        ctx.start_workflow("pack", pack.using(idempotency_key="k"), "x")

    run = keyed.enqueue()
    run_until_idle()
    with pytest.raises(RunFailed, match="A child takes no idempotency_key"):
        run.result(timeout=0)


# --- cancellation ----------------------------------------------------------------------------


@durable_workflow(name="children.tree")
def tree(ctx: Context, depth: int) -> None:
    if depth:
        ctx.start_workflow("detached", tree.using(detached=True), 0)
        ctx.run_workflow("attached", tree, depth - 1)
    ctx.wait_for_event("never")


@pytest.mark.behaviour("CANCEL-01g")
def test_cancelling_a_parent_cancels_its_attached_descendants() -> None:
    run = tree.enqueue(2)
    run_until_idle()
    assert Run.objects.filter(status=Status.WAITING).count() == 5
    run.cancel("all of it")
    run_until_idle()
    ends = {(one.parent_path or "root", one.status) for one in Run.objects.all()}
    assert ends == {("root", "cancelled"), ("attached", "cancelled"), ("detached", "waiting")}
    grandchild = Run.objects.get(parent__parent_id=run.id, parent_path="attached")
    with pytest.raises(RunCancelled, match="parent cancelled: all of it"):
        get_run(grandchild.pk).result(timeout=0)


def test_a_child_that_outlives_its_parent() -> None:
    @durable_workflow(name="children.leaving")
    def leaving(ctx: Context) -> str:
        ctx.start_workflow("aside", pack, "air")
        return "gone"

    run = leaving.enqueue()
    run_until_idle()
    assert run.result(timeout=0) == "gone"
    [child] = children_of(run)
    get_run(child.pk).send_event("breath")
    run_until_idle()
    assert get_run(child.pk).result(timeout=0) == "packed air"


# --- enqueue inside a step -------------------------------------------------------------------


failures: list[BaseException] = []


def start_some() -> list[str]:
    runs = [pack.enqueue("one"), pack.enqueue("two"), *pack.enqueue_many([{"what": "two"}, {"what": "three"}])]
    if failures:
        raise failures.pop()
    return [str(run.id) for run in runs]


@durable_workflow(name="children.starting", step_retry=Retry(max_attempts=3, initial=0, maximum=0))
def starting(ctx: Context, name: str) -> list[str]:
    return ctx.step(name, start_some)


def test_what_a_step_enqueued_is_not_enqueued_again_by_its_retry() -> None:
    failures[:] = [OSError(), OSError()]
    run = starting.enqueue("start")
    run_until_idle()
    started = run.result(timeout=0)
    assert len(set(started)) == 4
    assert {str(one.pk) for one in Run.objects.filter(workflow="children.pack")} == set(started)
    assert sorted(calls) == ["one", "three", "two", "two"]
    assert run.steps()[0].attempts == 3


def test_another_run_s_step_enqueues_its_own() -> None:
    first, second = starting.enqueue("start"), starting.enqueue("start")
    run_until_idle()
    assert not set(first.result(timeout=0)) & set(second.result(timeout=0))


def test_the_key_of_a_step_with_a_long_path_is_stored() -> None:
    failures[:] = [OSError()]
    run = starting.enqueue("é" * 200)
    run_until_idle()
    assert len(run.result(timeout=0)) == 4
    assert Run.objects.filter(workflow="children.pack").count() == 4
    assert {len(key.key) for key in IdempotencyKey.objects.all()} == {200}


def test_an_idempotency_key_of_one_s_own_counts_inside_a_step() -> None:
    @durable_workflow(name="children.own_key")
    def own_key(ctx: Context) -> list[str]:
        def start() -> str:
            return str(pack.using(idempotency_key="order-42").enqueue("x").id)

        return [ctx.step("first", start), ctx.step("second", start)]

    run = own_key.enqueue()
    run_until_idle()
    first, second = run.result(timeout=0)
    assert first == second


@durable_workflow(name="children.ship_all", retry=ONCE)
def ship_all(ctx: Context, whats: list[str]) -> Any:
    return ctx.map("pack", pack, whats, max_parallel=2)


def test_a_child_that_takes_long_keeps_none_but_itself_waiting() -> None:
    run = ship_all.enqueue(["air", *"abcdef"])
    run_until_idle()
    assert calls == ["air", *"abcdef"]
    [slow] = [child for child in children_of(run) if child.status == Status.WAITING]
    assert run.refresh().status == Status.WAITING
    get_run(slow.pk).send_event("breath")
    run_until_idle()
    assert run.result(timeout=0) == [f"packed {what}" for what in ["air", *"abcdef"]]


def out_of_use() -> None:
    raise NonRetriableError("never")


def slow() -> None:
    raise StepTimeout("a", 1.0)


def undo_it_all() -> None:
    raise RollbackError("the child's own")


@durable_workflow(name="children.failing", retry=ONCE, step_retry=ONCE)
def failing(ctx: Context, how: str) -> None:
    steps = {"step never": out_of_use, "step late": slow, "step no": dict[str, int]().popitem, "undo": undo_it_all}
    if how == "never":
        out_of_use()
    ctx.step("a", steps[how])


@durable_workflow(name="children.reasons")
def reasons(ctx: Context, ways: list[str]) -> dict[str, Any]:
    def reason(how: str) -> Any:
        return ctx.try_block(how, lambda ctx: ctx.run_workflow("child", failing, how)).error

    return {how: (reason(how) or {})["reason"] for how in ways}


@pytest.mark.behaviour("FLOW-04c")
def test_a_child_s_failure_has_the_reason_that_its_own_failure_had() -> None:
    expected = {
        "never": "critical",
        "step never": "critical",
        "step late": "timeout",
        "step no": "exhausted",
        "undo": "critical",
    }
    run = reasons.enqueue(list(expected))
    run_until_idle(skip_waits=True)
    assert run.result(timeout=0) == expected
