"""What ran more often than it had to, too soon or too late: I7, I8, I9, I17."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from tests.chaos.evidence import Change, Violation
from tests.chaos.faults import DEADLY, DRAIN, FREEZE, OF_POSTGRES
from tests.chaos.programs import BACK_OFF, SLEEP_ENDS, sleeps_of
from tests.chaos.story import CLOCK_STEP, UNDO, Execution, Story
from tests.chaos.witness import RAISE
from tests.processes import FAST

JITTER = 0.1
"""The part by which a back-off may be shorter than its policy says."""

HEARTBEAT = FAST["HEARTBEAT_SECONDS"]

DRAINING = 30.0
"""Seconds that a drain may last, its grace time and more: what is given back then was not journaled."""

LOST_TRANSACTION = "a lost transaction"
LAPSED = "a lapsed lease"
LATE_START = "a late start"
ABOUT_TO_END = "a lease about to end"
LATE_BEATS = "late heartbeats"
MISSED_BEATS = 2
"""Where every message is late, beat after beat may find a run's row held. A delay of no more than so many beats is no
reason to hand it back: a lease outlasts them."""
HELD_UP = "a late start without a freeze"
"""Its lease had lapsed, and it should have known. Who is kept off the processor just then cannot, so there may be few:
see goals."""
STARVATION = "starvation"
"""A lease lapsed, and no fault had cost it: see ``starved``."""
TAKEN_WITHIN = 2 * FAST["REAP_SECONDS"]
"""Seconds after its end in which a lapsed lease is taken away: by the next sweep, which may be held up itself. In an
hour (seed 20261206) 4,336 of 4,378 leases that lapsed were lost to a fault by this measure; the others, beside which
there was none but of some sessions, or a drain, count as lapsed by themselves."""

SKEW = 0.05
"""Seconds by which what the database noted within a transaction may come before its commit."""

ATOMIC_ATTEMPTS = 100


def check_repetitions(story: Story) -> Iterator[Violation]:
    yield from _results(story)
    for (run_id, path), executions in story.by_step.items():
        yield from _attempts(story, run_id, path, executions)
        yield from _repetitions(story, run_id, path, executions)
        yield from _too_late(story, run_id, path, executions)
    yield from _sleeps(story)


def _results(story: Story) -> Iterator[Violation]:
    """I7: what is journaled as a step's result an execution has returned, under the very claim that wrote it."""
    for written in story.evidence.writings:
        if written.kind not in ("step", "undo") or written.status != "succeeded":
            continue
        where = f"{written.path!r} of claim {written.token}"
        if written.run not in story.runs:
            continue
        first = story.first_written[written.run, written.path]
        if written.execution != first.execution:
            yield Violation("repeated", written.run, f"{where} is journaled anew, with another result")
        elif (execution := story.ended.get(written.execution or "")) is None:
            yield Violation("unwitnessed", written.run, f"{where} is journaled, and no execution came to that")
        elif (execution.run, execution.path, execution.token) != (first.run, first.path, first.token):
            yield Violation("stale", written.run, f"{where} has the result of {execution.path!r} of {execution.token}")
    for run_id, entries in story.entries.items():
        for entry in entries:
            first_written = story.first_written.get((run_id, entry.path))
            if first_written is None or entry.status != "succeeded" or entry.kind not in ("step", "undo"):
                continue
            if not isinstance(entry.value, dict) or entry.value.get("by") != first_written.execution:
                yield Violation("repeated", run_id, f"{entry.path!r} holds another result than was journaled")


def _attempts(story: Story, run_id: str, path: str, executions: list[Execution]) -> Iterator[Violation]:
    """I17: no more attempts than the policy allows, and time between them."""
    step = story.step_of(run_id, path)
    if step is None:
        return
    most = ATOMIC_ATTEMPTS if step.is_atomic else 1 + (0 if path.endswith(UNDO) else step.failures)
    if (last := max(one.attempt for one in executions)) > most:
        yield Violation("attempts", run_id, f"{path!r} came to attempt {last} of {most}")
    for before, after in pairwise(executions):
        if before.moment != RAISE or after.attempt != before.attempt + 1 or before.ended is None or step.is_atomic:
            continue
        if (pause := after.began - before.ended) < BACK_OFF * (1 - JITTER) - CLOCK_STEP:
            yield Violation("attempts", run_id, f"{path!r} was tried again after {pause:.3f} s")


def _repetitions(story: Story, run_id: str, path: str, executions: list[Execution]) -> Iterator[Violation]:
    """I9: a step is executed once more only where the claim that it was executed under was lost to a fault."""
    for before, after, why in _again(story, run_id, path, executions):
        text = f"{path!r} was executed again, {after.began - before.began:.3f} s later"
        if why is None:
            yield Violation("repeated", run_id, f"{text}, {_unexplained(story, before, after)}")


def _unexplained(story: Story, before: Execution, after: Execution) -> str:
    if before.token == after.token:
        return "under the same claim"
    if _is_late(story, before, after):
        return f"under a claim that was over before, and nothing had held process {after.pid} up"
    return f"and no fault had hit process {before.pid} while it had the claim"


def repetitions(story: Story) -> Counter[str]:
    """How many steps were executed once more, by the reason; those without one are violations."""
    found = (_again(story, run_id, path, executions) for (run_id, path), executions in story.by_step.items())
    return Counter(why or "nothing" for pairs in found for _, _, why in pairs)


def _again(
    story: Story, run_id: str, path: str, executions: list[Execution]
) -> Iterator[tuple[Execution, Execution, str | None]]:
    """Each execution that was no attempt that the policy asks for, the one that it repeats, and why.

    Claims follow one another, and each comes since the one before is over: an execution under the newest claim so far
    is explained by what became of the claim under which the step was executed last, whatever happens to its own. Those
    under an older claim than that can only come late: their process went on from before its claim was lost. Such a one
    explains nothing of what comes after it, which repeats the newest one all the same.
    """
    step = story.step_of(run_id, path)
    is_atomic = step is not None and step.is_atomic
    newest, *later = executions
    for one in later:
        if _is_late(story, newest, one):
            yield newest, one, _why_late(story, one)
            continue
        if newest.moment != RAISE or one.attempt != newest.attempt + 1:
            yield newest, one, _why(story, newest, one, is_atomic=is_atomic)
        newest = one


def _is_late(story: Story, before: Execution, after: Execution) -> bool:
    """Whether the claim of the one that began later is the older one. Of what is no claim nobody can tell."""
    claim, heir = story.claims.get(after.token), story.claims.get(before.token)
    return claim is not None and heir is not None and claim.seq < heir.seq


def _why_late(story: Story, late: Execution) -> str | None:
    """What held it up between its claim and its step, so that an heir was there before it."""
    if story.hits((FREEZE,), late.pid, claimed_at(story, late), late.began):
        return LATE_START
    return HELD_UP if lapsed(story, late.token) else None


def _why(story: Story, before: Execution, after: Execution, *, is_atomic: bool) -> str | None:
    """What fault explains it, of those that hit the claim of the execution before. One of PostgreSQL does so only by
    what it did to this claim or this transaction: at nearly every instant there is one that everybody may have felt."""
    felt = bool(story.hits(OF_POSTGRES, before.pid, before.began, after.began))
    if is_atomic and felt and after.attempt > before.attempt:
        # That is an error of the attempt.
        return LOST_TRANSACTION
    if before.token == after.token:
        # Nothing that became of the claim later is a reason.
        return None
    given_back = _given_back(story, before.token)
    # What hits a process after it has handed its claim back is no reason why it did.
    ends = after.began if given_back is None else given_back + CLOCK_STEP
    if story.hits(DEADLY, before.pid, before.began, ends):
        return "a death"
    if story.hits((FREEZE,), before.pid, before.began, ends):
        return "a freeze"
    if (change := lapsed(story, before.token)) is not None:
        return LAPSED if _lost_to_a_fault(story, change) else STARVATION
    if felt and story.hits((DRAIN,), before.pid, before.began - DRAINING, ends):
        return "a drain without PostgreSQL"
    if given_back is not None:
        if is_atomic:
            # It gave way to somebody: what it did is rolled back, which the count of these steps shows.
            return LOST_TRANSACTION
        # Its lease was nearly over, as it could not be renewed, or not in time.
        if story.away(given_back - story.lease, given_back) > HEARTBEAT:
            return ABOUT_TO_END
        if story.hampered(given_back - story.lease, given_back) > MISSED_BEATS * HEARTBEAT:
            return LATE_BEATS
    return None


def _given_back(story: Story, token: str) -> float | None:
    """When a claim was handed back by who had it."""
    claim = story.claims.get(token)
    changes = story.changes.get(claim.run, ()) if claim else ()
    end = next((change for change in changes if change.old_token == token and change.token != token), None)
    if end is None or end.status != "queued" or end.lapsed or end.suspect:
        return None
    return story.monotonic(end.at)


def claimed_at(story: Story, execution: Execution) -> float:
    claim = story.claims.get(execution.token)
    return execution.began if claim is None else story.monotonic(claim.at)


def lapsed(story: Story, token: str) -> Change | None:
    """The change by which a claim was taken away because its lease was past its end."""
    claim = story.claims.get(token)
    changes = story.changes.get(claim.run, ()) if claim else ()
    return next((change for change in changes if change.old_token == token and change.lapsed), None)


def starved(story: Story) -> list[Change]:
    """Leases that lapsed although no fault had cost them: the machine was too slow for its heartbeats."""
    return [
        change
        for change in story.evidence.changes
        if change.lapsed and change.token is None and not _lost_to_a_fault(story, change)
    ]


def _lost_to_a_fault(story: Story, change: Change) -> bool:
    """Whether the process of a lease that has lapsed was dead, or frozen, or without an answer of PostgreSQL's when the
    lease was to be renewed for the last time. That some of its sessions were lost is no reason: the next beat has
    another one."""
    pid, at = story.pid_of(change), story.monotonic(change.at)
    claim = story.claims.get(change.old_token or "")
    since, last = story.monotonic(claim.at if claim else change.at), at - story.lease - TAKEN_WITHIN
    if story.hits(DEADLY, pid, since, at) or story.hits((FREEZE,), pid, last, at):
        return True
    return story.away(last, at) > 0 or story.hampered(last, at) > MISSED_BEATS * HEARTBEAT


def _too_late(story: Story, run_id: str, path: str, executions: list[Execution]) -> Iterator[Violation]:
    """I8: once it is journaled, nobody begins it again who could have known."""
    written = story.first_written.get((run_id, path))
    if written is None:
        return
    for one in executions:
        if one.by == written.execution:
            continue
        claim = story.claims.get(one.token)
        if claim is None:
            yield Violation("repeated", run_id, f"{path!r} was executed under {one.token}, which is no claim")
        elif claim.seq > written.seq:
            yield Violation("repeated", run_id, f"{path!r} was executed by a claim that came after it was journaled")
        elif one.began > story.monotonic(written.at) + SKEW and (
            one.token == written.token or not _why_late(story, one)
        ):
            yield Violation("repeated", run_id, f"{path!r} was executed after it was journaled, and nobody was frozen")


def _sleeps(story: Story) -> Iterator[Violation]:
    """I17: no sleep ends early."""
    begins, is_over = SLEEP_ENDS
    for run in story.runs.values():
        for path, seconds in sleeps_of(run.program):
            before = story.by_step.get((run.id, path + begins), [])
            after = story.by_step.get((run.id, path + is_over), [])
            if before and after and (slept := after[0].began - before[0].began) < seconds - CLOCK_STEP:
                yield Violation("early", run.id, f"slept {slept:.3f} s of {seconds:g} at {path!r}")
