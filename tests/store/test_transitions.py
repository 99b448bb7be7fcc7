"""Every transition on every status: what becomes of the run, or that not one of its columns was touched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from django_durable.core.clock import DatabaseClock
from django_durable.core.journal.journal import Write
from django_durable.core.journal.outcomes import (
    Blocked,
    Cancelled,
    Completed,
    Ending,
    Failed,
    Lost,
    Outcome,
    Paused,
    Released,
    Retried,
    Suspended,
)
from django_durable.core.journal.states import TERMINAL, BlockReason, EntryStatus, Phase, Status
from django_durable.core.names import ON_FAILURE
from django_durable.core.payloads.codec import encode
from django_durable.models import JournalEntry, Payload, Run
from django_durable.store import fitting, recovery, transitions
from django_durable.store.auditing import Verb
from django_durable.store.claiming import claim_ids, claim_next, claim_suspect
from django_durable.store.committing import write_batch
from django_durable.store.database import Database
from tests.store.rows import (
    FUTURE,
    LEASE,
    PAST,
    WORKFLOW,
    at,
    child_entry,
    claimant,
    entries,
    event_entry,
    fresh,
    journal_row,
    lease_of,
    make_run,
    row_of,
    send,
    stale,
    step_entry,
)

pytestmark = pytest.mark.django_db

# "." no column of the row changes, "=" the status stays and other columns may change, else the new status.
TABLE = """
                          scheduled queued    running   waiting   paused    blocked   succeeded failed    cancelled
claim_ids                 .         running   .         .         .         .         .         .         .
claim_ids_suspect         .         .         .         .         .         .         .         .         .
claim_ids_unknown         .         .         .         .         .         .         .         .         .
claim_next                .         running   .         .         .         .         .         .         .
claim_next_due            running   running   .         running   .         .         .         .         .
claim_next_suspect        .         .         .         .         .         .         .         .         .
claim_next_elsewhere      .         .         .         .         .         .         .         .         .
claim_suspect             .         .         .         .         .         .         .         .         .
claim_suspect_suspect     .         running   .         .         .         .         .         .         .
journal                   .         .         .         .         .         .         .         .         .
complete                  .         .         succeeded .         .         .         .         .         .
complete_cancelling       .         .         cancelled .         .         .         .         .         .
complete_pausing          .         .         succeeded .         .         .         .         .         .
fail                      .         .         failed    .         .         .         .         .         .
fail_cancelling           .         .         cancelled .         .         .         .         .         .
end                       .         .         queued    .         .         .         .         .         .
end_pausing               .         .         paused    .         .         .         .         .         .
cancelled                 .         .         cancelled .         .         .         .         .         .
release                   .         .         queued    .         .         .         .         .         .
release_cancelling        .         .         queued    .         .         .         .         .         .
release_pausing           .         .         paused    .         .         .         .         .         .
release_both              .         .         queued    .         .         .         .         .         .
paused                    .         .         queued    .         .         .         .         .         .
paused_pausing            .         .         paused    .         .         .         .         .         .
paused_both               .         .         queued    .         .         .         .         .         .
block                     .         .         blocked   .         .         .         .         .         .
block_cancelling          .         .         cancelled .         .         .         .         .         .
block_owing               .         .         queued    .         .         .         .         .         .
block_owing_in_vain       .         .         blocked   .         .         .         .         .         .
lost                      .         .         .         .         .         .         .         .         .
suspend                   .         .         waiting   .         .         .         .         .         .
suspend_reason            .         .         queued    .         .         .         .         .         .
suspend_reason_abandoned  .         .         waiting   .         .         .         .         .         .
suspend_cancelling        .         .         queued    .         .         .         .         .         .
suspend_pausing           .         .         paused    .         .         .         .         .         .
suspend_both              .         .         queued    .         .         .         .         .         .
retry                     .         .         waiting   .         .         .         .         .         .
retry_cancelling          .         .         queued    .         .         .         .         .         .
retry_pausing             .         .         paused    .         .         .         .         .         .
stale_complete            .         .         .         .         .         .         .         .         .
stale_fail                .         .         .         .         .         .         .         .         .
stale_end                 .         .         .         .         .         .         .         .         .
stale_cancelled           .         .         .         .         .         .         .         .         .
stale_release             .         .         .         .         .         .         .         .         .
stale_paused              .         .         .         .         .         .         .         .         .
stale_block               .         .         .         .         .         .         .         .         .
stale_suspend             .         .         .         .         .         .         .         .         .
stale_retry               .         .         .         .         .         .         .         .         .
wake                      .         .         .         .         .         .         .         .         .
wake_reason               .         .         .         queued    .         .         .         .         .
wake_reason_abandoned     .         .         .         .         .         .         .         .         .
wake_cancelling           .         .         .         queued    .         .         .         .         .
sweep                     .         .         .         .         .         .         .         .         .
sweep_reason              .         .         .         queued    .         .         .         .         .
sweep_reason_abandoned    .         .         .         .         .         .         .         .         .
promote                   .         .         .         .         .         .         .         .         .
promote_due               queued    .         .         queued    .         .         .         .         .
reap                      .         .         .         .         .         .         .         .         .
reap_lapsed               .         .         queued    .         .         .         .         .         .
reap_cancelling           .         .         queued    .         .         .         .         .         .
reap_pausing              .         .         paused    .         .         .         .         .         .
reap_seen                 .         .         queued    .         .         .         .         .         .
reap_seen_other           .         .         .         .         .         .         .         .         .
reap_guilty               .         .         blocked   .         .         .         .         .         .
reap_guilty_cancelling    .         .         cancelled .         .         .         .         .         .
reap_guilty_owing         .         .         blocked   .         .         .         .         .         .
reap_worker               .         .         queued    .         .         .         .         .         .
reap_worker_pausing       .         .         paused    .         .         .         .         .         .
reap_worker_other         .         .         .         .         .         .         .         .         .
reap_worker_guilty        .         .         blocked   .         .         .         .         .         .
reap_worker_guilty_cancel .         .         cancelled .         .         .         .         .         .
release_worker            .         .         queued    .         .         .         .         .         .
release_worker_pausing    .         .         paused    .         .         .         .         .         .
release_worker_other      .         .         .         .         .         .         .         .         .
renew                     .         .         =         .         .         .         .         .         .
stale_renew               .         .         .         .         .         .         .         .         .
cancel                    cancelled queued    =         queued    queued    cancelled .         .         .
cancel_unclaimed          cancelled cancelled =         cancelled cancelled cancelled .         .         .
cancel_owing              cancelled queued    =         queued    queued    queued    .         .         .
cancel_owing_in_vain      cancelled queued    =         queued    queued    cancelled .         .         .
cancel_owing_again        cancelled queued    .         queued    queued    cancelled .         .         .
pause                     paused    paused    =         paused    .         .         .         .         .
pause_cancelling          .         .         .         .         .         .         .         .         .
resume                    .         .         .         .         queued    queued    .         queued    queued
resume_pausing            .         .         =         .         queued    queued    .         queued    queued
resume_early              .         .         .         .         scheduled queued    .         queued    queued
block_unknown             blocked   blocked   .         blocked   .         .         .         .         .
block_unknown_not_due     .         blocked   .         .         .         .         .         .         .
block_unknown_cancelling  cancelled cancelled .         cancelled .         .         .         .         .
block_unknown_owing       blocked   blocked   .         blocked   .         .         .         .         .
block_unknown_known       .         .         .         .         .         .         .         .         .
unblock_known_code        .         .         .         .         .         queued    .         .         .
unblock_known_same_code   .         .         .         .         .         .         .         .         .
unblock_known_elsewhere   .         .         .         .         .         .         .         .         .
unblock_known_name        .         .         .         .         .         queued    .         .         .
unblock_known_other_name  .         .         .         .         .         .         .         .         .
"""

Apply = Callable[[Database, Run], object]


@dataclass
class Transition:
    """``make`` is what to add to the columns of each run, so that nothing but its status stands in the way.

    ``reason``: how far an entry has come whose event is there.
    """

    apply: Apply
    make: Callable[[str], dict[str, Any]] = field(default=lambda status: {})
    reason: EntryStatus | None = None


def constantly(**more: Any) -> Callable[[str], dict[str, Any]]:
    return lambda status: more


def due(status: str) -> dict[str, Any]:
    return {"wake_at": at(PAST)}


def cancelling(status: str) -> dict[str, Any]:
    return {"cancel_requested_at": timezone.now()}


def pausing(status: str) -> dict[str, Any]:
    return {"pause_requested_at": timezone.now()}


def in_vain(status: str) -> dict[str, Any]:
    """Its code does not fit what there is to undo."""
    return {"phase": Phase.COMPENSATING}


def both(status: str) -> dict[str, Any]:
    return {**pausing(status), **cancelling(status)}


def early(status: str) -> dict[str, Any]:
    """Paused before its time had come."""
    return {"claims": 0, "started_at": None, "wake_at": at(FUTURE)} if status == Status.PAUSED else {}


def lapsed(status: str) -> dict[str, Any]:
    return {"lease_expires_at": at(PAST)} if status == Status.RUNNING else {}


def guilty(status: str) -> dict[str, Any]:
    return {**lapsed(status), "suspect": True, "crashes": 2}


def guilty_cancelling(status: str) -> dict[str, Any]:
    return {**guilty(status), **cancelling(status)}


def awaiting(status: str) -> dict[str, Any]:
    return {"waiting_on": "event:packed"} if status == Status.WAITING else {}


def no_reason_to_block(status: str) -> dict[str, Any]:
    return {"block_reason": "unknown_workflow", "fingerprint": ""} if status == Status.BLOCKED else {}


def claims(db: Database, run: Run, *, workflow: str = WORKFLOW) -> object:
    return claim_ids(db, claimant(workflow), [run.pk], lease=LEASE, time=DatabaseClock())


def claims_next(db: Database, run: Run, *, queue: str = "default") -> object:
    return claim_next(db, claimant(queues=[queue]), 10, lease=LEASE, time=DatabaseClock())


def claims_suspect(db: Database, run: Run) -> object:
    return claim_suspect(db, claimant(), lease=LEASE, time=DatabaseClock())


def writes(outcome: Outcome | None) -> Apply:
    def apply(db: Database, run: Run) -> object:
        return write_batch(db, [(lease_of(run), Write(entries(step_entry()), outcome=outcome))])

    return apply


def owing(apply: Apply) -> Apply:
    """Of a run that has done what a compensation would undo."""

    def applied(db: Database, run: Run) -> object:
        journal_row(run, replace(step_entry(), path="reserve", undo=True))
        return apply(db, run)

    return applied


def cancels(db: Database, run: Run) -> object:
    return transitions.cancel(db, [run.pk], Verb())


def writes_stale(outcome: Outcome) -> Apply:
    def apply(db: Database, run: Run) -> object:
        return write_batch(db, [(stale(lease_of(run)), Write(entries(step_entry()), outcome=outcome))])

    return apply


def reaps(db: Database, run: Run) -> object:
    return recovery.reap(db, 10, lease=LEASE, max_crashes=3)


def reaps_seen(db: Database, run: Run) -> object:
    seen = {run.pk: run.lease_token or uuid4()}
    return recovery.reap(db, 10, lease=LEASE, max_crashes=3, seen=seen)


def reaps_seen_other(db: Database, run: Run) -> object:
    return recovery.reap(db, 10, lease=LEASE, max_crashes=3, seen={run.pk: uuid4()})


def reaps_worker(db: Database, run: Run) -> object:
    return recovery.reap_worker(db, run.leased_by or uuid4(), lease=LEASE, max_crashes=3)


def reaps_worker_other(db: Database, run: Run) -> object:
    return recovery.reap_worker(db, uuid4(), lease=LEASE, max_crashes=3)


def unblocks(fingerprint: str, workflow: str = WORKFLOW, queue: str = "default") -> Apply:
    return lambda db, run: fitting.unblock_known(db, {workflow: fingerprint}, [queue])


ERROR = {"type": "ValueError", "message": "no", "traceback": ""}
BLOCK = Blocked(BlockReason.DIVERGED, "changed", "new")
OUTCOMES: dict[str, Outcome] = {
    "complete": Completed("1"),
    "fail": Failed(ERROR),
    "end": Ending(Phase.ON_FAILURE, ERROR),
    "cancelled": Cancelled(),
    "release": Released(),
    "paused": Paused(),
    "block": BLOCK,
    "suspend": Suspended("sleep:nap", wake_after=3600),
    "retry": Retried(ERROR, 2, 3600),
}
TRANSITIONS: dict[str, Transition] = {
    "claim_ids": Transition(claims),
    "claim_ids_suspect": Transition(claims, constantly(suspect=True)),
    "claim_ids_unknown": Transition(lambda db, run: claims(db, run, workflow="tests.other")),
    "claim_next": Transition(claims_next),
    "claim_next_due": Transition(claims_next, due),
    "claim_next_suspect": Transition(claims_next, lambda status: {**due(status), "suspect": True}),
    "claim_next_elsewhere": Transition(lambda db, run: claims_next(db, run, queue="elsewhere"), due),
    "claim_suspect": Transition(claims_suspect, due),
    "claim_suspect_suspect": Transition(claims_suspect, lambda status: {**due(status), "suspect": True}),
    "journal": Transition(writes(None)),
    "lost": Transition(writes(Lost())),
    **{name: Transition(writes(outcome)) for name, outcome in OUTCOMES.items()},
    **{f"stale_{name}": Transition(writes_stale(outcome)) for name, outcome in OUTCOMES.items()},
    **{
        f"{name}_cancelling": Transition(writes(OUTCOMES[name]), cancelling)
        for name in ("complete", "fail", "release", "block", "suspend", "retry")
    },
    **{
        f"{name}_pausing": Transition(writes(OUTCOMES[name]), pausing)
        for name in ("complete", "end", "release", "paused", "suspend", "retry")
    },
    **{f"{name}_both": Transition(writes(OUTCOMES[name]), both) for name in ("release", "paused", "suspend")},
    "suspend_reason": Transition(writes(Suspended("event:packed")), reason=EntryStatus.WAITING),
    "suspend_reason_abandoned": Transition(writes(OUTCOMES["suspend"]), reason=EntryStatus.ABANDONED),
    "wake": Transition(lambda db, run: recovery.wake(db, run.pk), due),
    "wake_reason": Transition(lambda db, run: recovery.wake(db, run.pk), awaiting, reason=EntryStatus.WAITING),
    "wake_reason_abandoned": Transition(
        lambda db, run: recovery.wake(db, run.pk), awaiting, reason=EntryStatus.ABANDONED
    ),
    "wake_cancelling": Transition(lambda db, run: recovery.wake(db, run.pk), cancelling),
    "sweep": Transition(lambda db, run: recovery.sweep(db, 10), due),
    "sweep_reason": Transition(lambda db, run: recovery.sweep(db, 10), awaiting, reason=EntryStatus.WAITING),
    "sweep_reason_abandoned": Transition(
        lambda db, run: recovery.sweep(db, 10), awaiting, reason=EntryStatus.ABANDONED
    ),
    "promote": Transition(lambda db, run: recovery.promote(db, 10), reason=EntryStatus.WAITING),
    "promote_due": Transition(lambda db, run: recovery.promote(db, 10), due),
    "reap": Transition(reaps),
    "reap_lapsed": Transition(reaps, lapsed),
    "reap_cancelling": Transition(reaps, lambda status: {**lapsed(status), **cancelling(status)}),
    "reap_pausing": Transition(reaps, lambda status: {**lapsed(status), **pausing(status)}),
    "reap_worker_pausing": Transition(reaps_worker, pausing),
    "release_worker_pausing": Transition(
        lambda db, run: recovery.release_worker(db, run.leased_by or uuid4()), pausing
    ),
    "pause": Transition(lambda db, run: transitions.pause(db, [run.pk], Verb())),
    "pause_cancelling": Transition(lambda db, run: transitions.pause(db, [run.pk], Verb()), cancelling),
    "resume_pausing": Transition(
        lambda db, run: transitions.resume(db, [run.pk], Verb()),
        lambda status: pausing(status) if status == Status.RUNNING else {},
    ),
    "resume_early": Transition(lambda db, run: transitions.resume(db, [run.pk], Verb()), early),
    "reap_seen": Transition(reaps_seen, lapsed),
    "reap_seen_other": Transition(reaps_seen_other, lapsed),
    "reap_guilty": Transition(reaps, guilty),
    "reap_guilty_cancelling": Transition(reaps, guilty_cancelling),
    "reap_guilty_owing": Transition(owing(reaps), guilty_cancelling),
    "reap_worker": Transition(reaps_worker),
    "reap_worker_other": Transition(reaps_worker_other, lapsed),
    "reap_worker_guilty": Transition(reaps_worker, guilty),
    "reap_worker_guilty_cancel": Transition(reaps_worker, guilty_cancelling),
    "release_worker": Transition(lambda db, run: recovery.release_worker(db, run.leased_by or uuid4())),
    "release_worker_other": Transition(lambda db, run: recovery.release_worker(db, uuid4()), lapsed),
    "renew": Transition(lambda db, run: recovery.renew(db, [lease_of(run)], lease=7200)),
    "stale_renew": Transition(lambda db, run: recovery.renew(db, [stale(lease_of(run))], lease=7200)),
    "block_owing": Transition(writes(replace(BLOCK, undoes=True)), cancelling),
    "block_owing_in_vain": Transition(
        writes(replace(BLOCK, undoes=True)), lambda status: {**cancelling(status), **in_vain(status)}
    ),
    "cancel": Transition(cancels, constantly(claims=1)),
    "cancel_unclaimed": Transition(cancels, constantly(claims=0)),
    "cancel_owing": Transition(owing(cancels), constantly(claims=1)),
    "cancel_owing_in_vain": Transition(owing(cancels), lambda status: {"claims": 1, **in_vain(status)}),
    "cancel_owing_again": Transition(owing(cancels), lambda status: {"claims": 1, **cancelling(status)}),
    "resume": Transition(lambda db, run: transitions.resume(db, [run.pk], Verb())),
    "block_unknown": Transition(lambda db, run: fitting.block_unknown(db, ["tests.other"], 10), due),
    "block_unknown_cancelling": Transition(
        lambda db, run: fitting.block_unknown(db, ["tests.other"], 10),
        lambda status: {**due(status), **cancelling(status)},
    ),
    "block_unknown_owing": Transition(
        owing(lambda db, run: fitting.block_unknown(db, ["tests.other"], 10)),
        lambda status: {**due(status), **cancelling(status)},
    ),
    "block_unknown_not_due": Transition(lambda db, run: fitting.block_unknown(db, ["tests.other"], 10)),
    "block_unknown_known": Transition(lambda db, run: fitting.block_unknown(db, [WORKFLOW], 10), due),
    "unblock_known_code": Transition(unblocks("new")),
    "unblock_known_same_code": Transition(unblocks("old")),
    "unblock_known_elsewhere": Transition(unblocks("new", queue="elsewhere")),
    "unblock_known_name": Transition(unblocks("new", queue="elsewhere"), no_reason_to_block),
    "unblock_known_other_name": Transition(unblocks("new", "tests.other"), no_reason_to_block),
}


def read_table() -> dict[tuple[str, str], str]:
    header, *lines = [line.split() for line in TABLE.splitlines() if line.strip()]
    assert all(len(line) == len(header) + 1 for line in lines)
    return {(line[0], status): cell for line in lines for status, cell in zip(header, line[1:], strict=True)}


CELLS = read_table()


def test_the_table_holds_every_transition_and_every_status():
    assert {name for name, _ in CELLS} == set(TRANSITIONS)
    assert {status for _, status in CELLS} == set(Status)


@pytest.mark.behaviour("RUN-01c", "RUN-02c", "RUN-03b", "RUN-19c", "CANCEL-01h")
@pytest.mark.parametrize(("name", "status"), CELLS)
def test_transition(name: str, status: str):
    transition, expected = TRANSITIONS[name], CELLS[name, status]
    run = make_run(status, **transition.make(status))
    if transition.reason is not None:
        journal_row(run, replace(event_entry(), status=transition.reason))
        send(run.pk)
    before = row_of(run)
    transition.apply(Database(), run)
    after = row_of(run)
    if expected == ".":
        assert after == before
    elif expected == "=":
        assert after["status"] == before["status"]
        assert after != before
    else:
        assert after["status"] == expected
        check_columns(before, after)


def check_columns(before: dict[str, Any], after: dict[str, Any]) -> None:
    """What the constraint on the lease does not say of a run that has just come to its status."""
    status = after["status"]
    assert (after["finished_at"] is not None) == (status in TERMINAL)
    assert bool(after["block_reason"]) == (status == Status.BLOCKED)
    assert after["attempt"] >= 1
    if status == Status.WAITING:
        assert after["waiting_on"]
    if status == Status.SCHEDULED:
        assert after["wake_at"] is not None
    is_claim = status == Status.RUNNING
    assert after["claims"] == before["claims"] + is_claim
    if is_claim:
        assert after["lease_token"] not in (None, before["lease_token"])
        assert after["started_at"] is not None
        assert (after["wake_at"], after["waiting_on"]) == (None, "")
    if status == Status.QUEUED:
        assert after["queued_at"] >= before["queued_at"] if before["queued_at"] else after["queued_at"]
        assert after["wake_at"] is None
    if status in (Status.SUCCEEDED, Status.FAILED, Status.CANCELLED, Status.BLOCKED):
        assert after["wake_at"] is None
    unchanging = ("id", "workflow", "queue", "priority", "root_id", "parent_id", "created_at")
    assert {name: after[name] for name in unchanging} == {name: before[name] for name in unchanging}


@pytest.mark.parametrize("status", Status)
def test_a_resumed_run_begins_anew_with_its_journal(status: str):
    """Nothing that ended it is left, and a deadline that lies ahead still stands."""
    deadline = at(FUTURE)
    run = make_run(status, deadline_at=deadline, phase="on_failure", crashes=2, attempt=2)
    if not transitions.resume(Database(), [run.pk], Verb("ann", "mended")):
        assert status not in ("paused", "blocked", "failed", "cancelled")
        return
    after = fresh(run)
    # A pause is no end: what comes after it is what would have come.
    ended = ("on_failure", 2) if status == Status.PAUSED else ("forward", 0)
    assert (after.phase, after.crashes, after.suspect, after.finished_at) == (*ended, False, None)
    assert (after.cancel_requested_at, after.block_reason, after.fingerprint) == (None, "", "")
    assert after.deadline_at == deadline
    assert [(a.verb, a.actor, a.reason, a.status_before) for a in after.audit.all()] == [
        ("resume", "ann", "mended", status)
    ]


def test_a_resumed_run_is_rid_of_a_deadline_that_has_passed():
    run = make_run(Status.FAILED, deadline_at=at(-timedelta(seconds=1)))
    transitions.resume(Database(), [run.pk], Verb())
    assert fresh(run).deadline_at is None


def test_a_cancellation_does_not_lock_what_has_ended_below():
    parent = make_run(Status.WAITING)
    below = [make_run(status, parent_id=parent.pk) for status in (Status.SUCCEEDED, Status.FAILED, Status.QUEUED)]
    looked_at: list[Run] = []
    locked = transitions.locked
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transitions, "locked", lambda db, runs: looked_at.extend(got := locked(db, runs)) or got)
        assert transitions.cancel(Database(), [parent.pk], Verb()).count == 2
    assert [run.pk for run in looked_at] == [parent.pk, below[2].pk]


def step_of(run: Run, path: str, status: EntryStatus, attempts: int = 3, **more: Any) -> None:
    journal_row(run, step_entry(path, status=status))
    JournalEntry.objects.filter(pk=(run.pk, path)).update(attempts=attempts, **more)


def steps_of(run: Run) -> dict[str, tuple[str, int, Any]]:
    rows = JournalEntry.objects.filter(run_id=run.pk).values_list("path", "status", "attempts", "wake_at")
    return {path: (status, attempts, wake_at) for path, status, attempts, wake_at in rows}


@pytest.mark.parametrize("status", [Status.PAUSED, Status.BLOCKED, Status.CANCELLED])
def test_a_run_that_did_not_fail_keeps_its_failures_and_loses_its_back_off(status: str):
    run = make_run(status)
    step_of(run, "card A", EntryStatus.FAILED)
    step_of(run, "card B", EntryStatus.RETRYING, attempts=2, wake_at=at(FUTURE))
    transitions.resume(Database(), [run.pk], Verb())
    assert steps_of(run) == {"card A": ("failed", 3, None), "card B": ("retrying", 2, None)}


def test_only_the_step_that_ended_each_of_many_runs_begins_anew():
    runs = [make_run(Status.FAILED) for _ in range(500)]
    for number, run in enumerate(runs):
        Payload.objects.create(run_id=run.pk, kind="error", data=encode({**ERROR, "culprits": [f"step {number % 2}"]}))
    for run in runs[:2]:
        for path in ("step 0", "step 1", ON_FAILURE):
            step_of(run, path, EntryStatus.FAILED)
    assert len(transitions.resume(Database(), [run.pk for run in runs], Verb())) == 500
    assert steps_of(runs[0]) == {"step 0": ("retrying", 0, None), "step 1": ("failed", 3, None)}
    assert steps_of(runs[1]) == {"step 0": ("failed", 3, None), "step 1": ("retrying", 0, None)}


@pytest.mark.parametrize(("ago", "stays"), [(60, True), (0, False)])
def test_a_cancelled_run_forgets_the_child_that_was_cancelled_with_it(ago: int, stays: bool):
    """It ran on for a moment and saw the child's end. A child that was cancelled before is one it has dealt with."""
    now = timezone.now()
    run = make_run(Status.CANCELLED, cancel_requested_at=now)
    asked = now - timedelta(seconds=ago)
    child = make_run(Status.CANCELLED, parent_id=run.pk, parent_path="child", cancel_requested_at=asked)
    journal_row(run, child_entry())
    JournalEntry.objects.filter(run_id=run.pk).update(status=EntryStatus.FAILED)
    transitions.resume(Database(), [run.pk], Verb())
    entry = JournalEntry.objects.get(run_id=run.pk)
    assert (entry.status, fresh(child).parent_path) == (("failed", "child") if stays else ("retrying", ""))
