"""Runs and the code that is deployed: who is blocked, and by which code a blocked run is taken up, once each."""

from __future__ import annotations

from uuid import UUID

import pytest
from django.utils import timezone

from django_durable.core.journal.journal import Write
from django_durable.core.journal.outcomes import Blocked, Suspended
from django_durable.core.journal.states import BlockReason, Status
from django_durable.models import Run
from django_durable.queues.ready import Ready
from django_durable.store import transitions
from django_durable.store.auditing import Verb
from django_durable.store.committing import write_batch
from django_durable.store.database import Database, PrivateDatabase
from django_durable.store.fitting import block_unknown, unblock_known
from tests.store.rows import (
    PAST,
    WORKFLOW,
    at,
    child_entry,
    claim,
    fresh,
    journal_row,
    make_run,
    payload,
    status_of,
)

pytestmark = pytest.mark.django_db(transaction=True)

MISFIT = [BlockReason.DIVERGED, BlockReason.UNDECODABLE]


def test_who_blocks_and_unblocks_is_told_which_runs_it_were():
    """For their signals: the workflow, the attempt, and how it ended."""
    gone = make_run(workflow="gone.away", attempt=2)
    stopped = make_run(workflow="gone.away", cancel_requested_at=timezone.now())
    make_run()
    told = block_unknown(Database(), [WORKFLOW], 10).runs
    assert [(run.pk, run.workflow, run.attempt, run.status) for run in told] == [
        (gone.pk, "gone.away", 2, "blocked"),
        (stopped.pk, "gone.away", 1, "cancelled"),
    ]
    assert [fresh(run).status for run in told] == ["blocked", "cancelled"]
    back = unblock_known(Database(), {"gone.away": "new"}, [])
    assert [(run.pk, run.workflow, run.attempt) for run in back] == [(gone.pk, "gone.away", 2)]


@pytest.mark.parametrize("status", [Status.SCHEDULED, Status.WAITING])
def test_what_is_due_of_an_unknown_workflow_is_given_the_same_patience(status: str):
    """Where the queue is the database nobody queues what is due: it would stay as it is for ever."""
    run = make_run(status, workflow="gone.away", wake_at=at(PAST))
    assert block_unknown(Database(), [WORKFLOW], 10, patience=7200).runs == []
    assert [one.pk for one in block_unknown(Database(), [WORKFLOW], 10, patience=60).runs] == [run.pk]
    after = fresh(run)
    assert (after.status, after.block_reason, after.wake_at, after.waiting_on) == (
        "blocked",
        BlockReason.UNKNOWN_WORKFLOW,
        None,
        "",
    )


# --- the parent of what ended ----------------------------------------------------------------


def waiting_parent() -> Run:
    parent = make_run(Status.WAITING, waiting_on="child:child", wake_at=None)
    journal_row(parent, child_entry())
    return parent


def ended_child(parent: Run) -> Run:
    """A child that was asked to stop, and that nobody knows how to stop."""
    stopped = {"workflow": "gone.away", "cancel_requested_at": timezone.now()}
    return make_run(parent_id=parent.pk, parent_path="child", **stopped)


def test_a_child_that_ends_since_nobody_knows_it_wakes_its_parent():
    parent = waiting_parent()
    ended_child(parent)
    assert block_unknown(Database(), [WORKFLOW], 10).woken == [Ready(parent.pk, "default", 0)]
    assert status_of(parent) == Status.QUEUED


def test_a_child_that_is_blocked_wakes_nobody():
    parent = waiting_parent()
    make_run(parent_id=parent.pk, parent_path="child", workflow="gone.away")
    assert block_unknown(Database(), [WORKFLOW], 10).woken == []
    assert status_of(parent) == Status.WAITING


# --- code that may fit -----------------------------------------------------------------------


class Deployed:
    """Processes with the code ``fingerprint``: they take up what they may, and block it when they cannot go on."""

    def __init__(self, db: Database, fingerprint: str) -> None:
        self._db = db
        self._fingerprint = fingerprint

    def takes_up(self, queues: tuple[str, ...] = ("default",)) -> list[UUID]:
        return [run.pk for run in unblock_known(Database(), {WORKFLOW: self._fingerprint}, queues)]

    def cannot_go_on(self, run: Run, reason: BlockReason = BlockReason.DIVERGED) -> None:
        [claimed] = claim(self._db, run)
        write_batch(self._db, [(claimed.lease, Write(outcome=Blocked(reason, "?", self._fingerprint)))])


@pytest.mark.parametrize("reason", MISFIT)
def test_each_of_two_codes_takes_a_run_up_once(db: PrivateDatabase, reason: BlockReason):
    """They run side by side for as long as a deploy takes: without a memory they would hand it to and fro."""
    old, new, run = Deployed(db, "old"), Deployed(db, "new"), make_run()
    old.cannot_go_on(run, reason)
    assert old.takes_up() == []
    assert new.takes_up() == [run.pk]
    assert fresh(run).block_reason == ""
    new.cannot_go_on(run, reason)
    assert (new.takes_up(), old.takes_up()) == ([], [])
    assert (fresh(run).status, fresh(run).block_reason) == (Status.BLOCKED, reason)
    assert payload(run, "block") == '{"message":"?"}'
    third = Deployed(db, "third")
    assert third.takes_up() == [run.pk]
    third.cannot_go_on(run, reason)
    assert [code.takes_up() for code in (old, new, third)] == [[], [], []]


def test_a_code_that_the_run_never_got_to_is_still_to_try_it(db: PrivateDatabase):
    """It was queued for the new code, and a process with the old one was faster."""
    old, new, run = Deployed(db, "old"), Deployed(db, "new"), make_run()
    old.cannot_go_on(run)
    for _ in range(3):
        assert new.takes_up() == [run.pk]
        old.cannot_go_on(run)
        assert old.takes_up() == []
    assert payload(run, "tried") == "\nold\n"
    assert new.takes_up() == [run.pk]
    new.cannot_go_on(run)
    assert (new.takes_up(), old.takes_up()) == ([], [])


def test_a_code_that_got_further_before_is_tried_again_where_the_other_code_blocked_it(db: PrivateDatabase):
    old, new, run = Deployed(db, "old"), Deployed(db, "new"), make_run()
    old.cannot_go_on(run)
    assert new.takes_up() == [run.pk]
    [claimed] = claim(db, run)
    write_batch(db, [(claimed.lease, Write(outcome=Suspended("sleep:nap", wake_after=0)))])
    Run.objects.filter(pk=run.pk).update(status=Status.QUEUED)
    old.cannot_go_on(run)
    assert new.takes_up() == [run.pk]


def test_only_who_serves_the_queue_takes_it_up(db: PrivateDatabase):
    """Else it would be queued for those alone that cannot go on with it, again and again."""
    run = make_run()
    Deployed(db, "old").cannot_go_on(run)
    new = Deployed(db, "new")
    assert new.takes_up(("mail", "reports")) == []
    assert new.takes_up(("mail", "default")) == [run.pk]


@pytest.mark.parametrize("version", ["1", "v", "V1", "%", ",", '"', "1\\", "é"])
def test_no_version_is_taken_for_a_part_of_another(db: PrivateDatabase, version: str):
    first, second, run = Deployed(db, "v1"), Deployed(db, "v2"), make_run()
    first.cannot_go_on(run)
    second.takes_up()
    second.cannot_go_on(run)
    one = Deployed(db, version)
    assert one.takes_up() == [run.pk]
    one.cannot_go_on(run)
    assert (one.takes_up(), first.takes_up()) == ([], [])


def test_a_resumed_run_is_tried_by_every_code_anew(db: PrivateDatabase):
    old, new, run = Deployed(db, "old"), Deployed(db, "new"), make_run()
    old.cannot_go_on(run)
    new.takes_up()
    new.cannot_go_on(run)
    transitions.resume(Database(), [run.pk], Verb())
    assert payload(run, "tried") is None
    old.cannot_go_on(run)
    assert new.takes_up() == [run.pk]


def test_of_many_that_were_tried_in_turn_each_is_remembered(db: PrivateDatabase):
    """One statement for all of them, whatever each has been through."""
    codes = [Deployed(db, name) for name in ("a", "b", "c")]
    runs = [make_run() for _ in range(6)]
    for number, run in enumerate(runs):
        codes[number % 3].cannot_go_on(run)
    for code in codes:
        for run_id in code.takes_up():
            code.cannot_go_on(fresh(run_id))
    for code in codes:
        for run_id in code.takes_up():
            code.cannot_go_on(fresh(run_id))
    assert [code.takes_up() for code in codes] == [[], [], []]
    assert [sorted([*(payload(run, "tried") or "").split(), fresh(run).fingerprint]) for run in runs] == [
        ["a", "b", "c"]
    ] * 6
