"""Plants: who has worked on a run, and what was written under whose claim."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from django.utils import timezone

from django_durable.models import Event, Payload
from tests.commands.checking import (
    HOUR,
    WORKER,
    a_record,
    a_run,
    an_entry,
    claimed,
    sound,
)
from tests.commands.plants.planting import MINUTE, Plant, Planted, counted


def never_claimed(status: str, **columns: Any) -> Plant:
    def plant() -> Planted:
        none = {"claims": 0, "started_at": None, "started_by": None}
        run = a_run(age=HOUR, status=status, **{**none, **columns})
        if status == "succeeded":
            Payload.objects.create(run_id=run.pk, kind="output", data="1")
        return run.pk, f"{status}, and never claimed"

    return plant


def leased_by_another() -> Planted:
    run = a_run(status="running", started_by=uuid4())
    return run.pk, "leased by a worker that did not make its latest claim"


def leased_by_another_than_the_latest() -> Planted:
    run = a_run(status="running", **claimed(2))
    a_record(run, 2, worker_id=uuid4())
    return run.pk, "leased by a worker that did not make its latest claim"


def running_although_taken_away() -> Planted:
    run = a_run(status="running", **claimed(2))
    a_record(run, 2, lost_at=timezone.now())
    return run.pk, "running under a claim that was taken away"


def recorded(problem: str, *records: dict[str, Any], times: int = 3) -> Plant:
    """Records of a run that was first claimed an hour ago; times in them are minutes after that."""

    def plant() -> Planted:
        run = a_run(age=HOUR, status="queued", **claimed(times))
        for record in records:
            moments = {name: run.created_at + value * MINUTE for name, value in record.items() if name.endswith("_at")}
            a_record(run, **{**record, **moments})
        return run.pk, problem

    return plant


CLAIMS: list[Plant] = [
    counted("started, and never claimed", started_at=timezone.now()),
    counted("started, and never claimed", started_by=WORKER),
    counted("claimed, and never started", claims=1),
    never_claimed("succeeded"),
    never_claimed("running"),
    never_claimed("waiting", waiting_on="retry:", wake_at=timezone.now() + HOUR),
    leased_by_another,
    leased_by_another_than_the_latest,
    running_although_taken_away,
    recorded("claim 4 is kept, and the run counts 3", {"number": 4}),
    recorded("claim 0 is kept in the place 0", {"number": 0}),
    recorded("claim 2 is kept in the place 7", {"number": 2, "place": 7}),
    recorded("claim 2 was made before the first", {"number": 2, "claimed_at": -10}),
    recorded("claim 2 was lost before it was made", {"number": 2, "claimed_at": 10, "lost_at": 5}),
    recorded("claim 3 was made before claim 2", {"number": 2, "claimed_at": 20}, {"number": 3, "claimed_at": 10}),
    recorded(
        "claim 3 was made before claim 2 was taken away",
        {"number": 2, "claimed_at": 10, "lost_at": 30},
        {"number": 3, "claimed_at": 20},
    ),
    recorded(
        "claim 50 was made before claim 49 was taken away",
        {"number": 49, "claimed_at": 10, "lost_at": 30},
        {"number": 50, "claimed_at": 20},
        times=50,
    ),
]


STALE = "the journal entry late was written under a token that is not the lease's"


def journaled_by_nobody() -> Planted:
    run = a_run(status="queued")
    an_entry(run)
    return run.pk, "the journal entry double of a run that was never claimed"


def journaled_before_its_claim() -> Planted:
    run = a_run(age=HOUR, status="queued", **claimed(1, 30 * MINUTE))
    an_entry(run)
    return run.pk, "the journal entry double is older than the first claim"


def journaled_by_a_stranger() -> Planted:
    """Of a run that was claimed once, nothing can be under another token."""
    run = a_run(age=HOUR, status="running")
    an_entry(run, path="late", token=uuid4())
    return run.pk, STALE


def journaled_by_the_holder_before(**columns: str) -> Plant:
    """By whom the lease was taken from, after it was."""

    def plant() -> Planted:
        run = a_run(age=HOUR, status="running", **claimed(2))
        a_record(run, 2, claimed_at=run.created_at + MINUTE)
        an_entry(run)
        moments = {"before": run.created_at, "after": run.created_at + 2 * MINUTE}
        token = uuid4()
        an_entry(run, path="early", seq=2, token=token, finished_at=run.created_at)
        an_entry(run, path="late", seq=3, token=token, **{name: moments[when] for name, when in columns.items()})
        return run.pk, STALE

    return plant


def journaled_in_a_fork_by_a_stranger() -> Planted:
    run = a_run(age=HOUR, status="running", forked_from=uuid4())
    an_entry(run, path="early", token=uuid4(), started_at=run.created_at - HOUR, finished_at=run.created_at - HOUR)
    an_entry(run, path="late", seq=2, token=uuid4(), started_at=run.created_at + MINUTE)
    return run.pk, STALE


def more_tokens_than_claims() -> Planted:
    run = sound()
    for number in (2, 3):
        an_entry(run, path=f"step {number}", seq=number, token=uuid4())
    return run.pk, "3 tokens in the journal of a run with 2 claims"


def event_taken(problem: str, minutes: int | None = None, **columns: Any) -> Plant:
    """In a run that was claimed an hour ago, so many minutes after; by nobody without."""

    def plant() -> Planted:
        run = a_run(age=HOUR, status="queued", **({} if minutes is None else claimed(1)))
        at = run.created_at + (minutes or 0) * MINUTE
        given = {"consumed_at": at, "consumed_by": "wait", **columns}
        Event.objects.create(run_id=run.pk, name="packed", payload="1", sent_at=run.created_at, **given)
        return run.pk, problem

    return plant


def event_taken_when_over() -> Planted:
    run = sound()
    taken = {"consumed_at": timezone.now(), "consumed_by": "late"}
    Event.objects.create(run_id=run.pk, name="packed", payload="1", sent_at=run.created_at, **taken)
    return run.pk, "an event was taken when the run was over"


def child_of_nobody() -> Planted:
    return a_run(status="queued", parent=a_run(status="queued")).pk, "a child of a run that was never claimed"


WRITTEN: list[Plant] = [
    journaled_by_nobody,
    journaled_before_its_claim,
    journaled_by_a_stranger,
    journaled_by_the_holder_before(started_at="after"),
    journaled_by_the_holder_before(finished_at="after"),
    journaled_in_a_fork_by_a_stranger,
    more_tokens_than_claims,
    event_taken("an event was taken, and the run never claimed"),
    event_taken("an event was taken before the first claim", -10),
    event_taken("an event was taken by no wait", 10, consumed_by=""),
    event_taken_when_over,
    child_of_nobody,
]


PLANTS: dict[str, list[Plant]] = {"I4": CLAIMS, "I5": WRITTEN}
