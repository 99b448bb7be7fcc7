"""Children whose end their parent goes by: what is to be resumed is the parent, and nobody is led to them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from django_durable import Context, Retry, durable_workflow
from django_durable.core.journal.states import Status
from django_durable.exceptions import ChildFailed
from django_durable.models import Run, Tally
from django_durable.store.transitions import IS_RESUMABLE
from django_durable.testing import run_until_idle
from tests.admin.overviews import FRAGMENT, look, tally
from tests.admin.pages import list_url, run_url, text_of
from tests.admin.world import make_entry, make_run, make_worker

ONCE: dict[str, Any] = {"retry": Retry(max_attempts=1), "step_retry": Retry(max_attempts=1)}


@durable_workflow(name="settled.child", **ONCE)
def child(ctx: Context) -> None:
    raise ValueError


@durable_workflow(name="settled.parent", **ONCE)
def parent(ctx: Context) -> None:
    ctx.run_workflow("child", child)


@durable_workflow(name="settled.catching", **ONCE)
def catching(ctx: Context) -> None:
    with suppress(ChildFailed):
        ctx.run_workflow("child", child)


def of(workflow: str) -> Run:
    return Run.objects.get(workflow=workflow)


def begun(workflow: Any) -> Run:
    """The child of a run of this workflow, after both have ended."""
    make_worker()
    workflow.enqueue()
    run_until_idle()
    return of("settled.child")


def buttons(client: Client, run: Run) -> set[str]:
    return {button["verb"] for button in client.get(run_url(run)).context["buttons"]}


def test_what_can_be_resumed_is_the_parent(boss: Client) -> None:
    run = begun(parent)
    assert buttons(boss, run) == {"rerun", "fork"}
    assert "resume" in buttons(boss, of("settled.parent"))
    text = text_of(boss.get(run_url(run)))
    assert "its parent has seen that. If the parent failed or was cancelled as well, resume that one." in text


@pytest.mark.parametrize("status", ["failed", "cancelled", "paused", "blocked"])
@pytest.mark.parametrize("entry", ["waiting", "failed", "succeeded", None])
def test_one_that_its_parent_still_waits_for_can_be_resumed(boss: Client, status: str, entry: str | None) -> None:
    above = make_run("waiting", waiting_on="child:c")
    if entry:
        make_entry(above, "c", kind="child", status=entry)
    make_entry(above, "d", 2, kind="child", status="failed")
    run = make_run(status, parent=above, parent_path="c")
    assert ("resume" in buttons(boss, run)) is (entry != "failed")
    asked = boss.post(list_url(f"?status={status}"), ALL)
    assert (asked.status_code == 200) is (entry != "failed")


@pytest.mark.parametrize("status", [*Status, "pausing"])
@pytest.mark.parametrize("entry", ["waiting", "failed", None])
def test_who_resumes_it_is_offered_that_where_it_can_be_done(boss: Client, status: str, entry: str | None) -> None:
    above = make_run("waiting", waiting_on="child:c")
    if entry:
        make_entry(above, "c", kind="child", status=entry)
    more = {"pause_requested_at": timezone.now()} if status == "pausing" else {}
    run = make_run("running" if status == "pausing" else status, parent=above, parent_path="c", **more)
    assert ("resume" in buttons(boss, run)) is Run.objects.filter(IS_RESUMABLE, pk=run.pk).exists()


ALL = {"action": "resume_selected", "index": "0", "select_across": "1", "_selected_action": "all"}


@pytest.mark.parametrize("query", ["", "?status=failed", "?status=attention"])
def test_as_many_go_on_as_were_asked_about(boss: Client, query: str) -> None:
    begun(parent)
    asked = boss.post(list_url(query), ALL)
    assert "This can be done to 1 run." in text_of(asked)
    sent = {**dict(asked.context["hidden"]), "confirmed": "1", "upto": asked.context["form"]["upto"].value()}
    done = boss.post(asked.context["target"], sent, follow=True)
    assert [str(message) for message in done.context["messages"]] == ["1 run goes on."]
    assert of("settled.parent").status == Status.QUEUED


def test_of_a_selection_they_are_left_out(boss: Client) -> None:
    run = begun(parent)
    picked = {
        **ALL,
        "select_across": "0",
        "_selected_action": [str(pk) for pk in Run.objects.values_list("pk", flat=True)],
    }
    asked = boss.post(list_url(), picked)
    assert [named["pk"] for named in asked.context["runs"]] == [of("settled.parent").pk]
    asked = boss.post(list_url(), {**picked, "_selected_action": [str(run.pk)]}, follow=True)
    assert "That can be done to none of these runs." in text_of(asked)


@pytest.mark.parametrize(("workflow", "left"), [(parent, 1), (catching, 0)])
def test_of_both_the_parent_needs_somebody(boss: Client, workflow: Any, left: int) -> None:
    begun(workflow)
    text = look(boss)
    assert ("1 run has failed" in text, "Nothing needs you." in text) == (bool(left), not left)
    for query in ("?trouble=today", "?trouble=day", "?status=attention"):
        found = boss.get(list_url(query)).context["cl"].result_list
        assert [run.workflow for run in found] == ["settled.parent"][:left]


def test_of_the_workflows_that_fail_those_have_a_button_that_can_be_resumed(boss: Client) -> None:
    begun(parent)
    Tally.objects.all().delete()
    for workflow in ("settled.parent", "settled.child"):
        tally(workflow=workflow, failed=1)
    [line] = [need for need in boss.get(FRAGMENT).context["needs"] if need.id == "failed"]
    named = {one.label.partition(":")[0]: one for one in line.named}
    assert {name: one.button is not None for name, one in named.items()} == {
        "settled.parent": True,
        "settled.child": False,
    }
    for name, one in named.items():
        assert [run.workflow for run in boss.get(one.url).context["cl"].result_list] == [name]
