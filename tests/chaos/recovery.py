"""How long it took until what a process had been doing when it was killed went on elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tests.chaos.evidence import Fault
from tests.chaos.faults import DEADLY, FREEZE, OUTAGES
from tests.chaos.story import Execution, Story


@dataclass(frozen=True, slots=True)
class Recovery:
    """``seconds`` from the death to the next thing that the run did, ``clear`` without the time in which there was no
    PostgreSQL, or no supervisor with a process that had come to work; None where its next process was hit as well, so
    that there is a death of its own to count from."""

    run: str
    path: str
    seconds: float
    clear: float | None


def recoveries(story: Story) -> list[Recovery]:
    """One for each run that was in a step when its process was killed."""
    return [
        recovery
        for fault in story.faults
        if fault.kind in DEADLY
        for execution in _victims(story, fault)
        if (recovery := _recovery(story, fault, execution)) is not None
    ]


def hits(story: Story) -> list[Fault]:
    """The faults, of the nemesis alone, that hit a step: its process, or PostgreSQL as a whole, while it ran."""
    return [fault for fault in story.evidence.faults if any(_open_at(story, fault))]


def _open_at(story: Story, fault: Fault) -> Iterator[Execution]:
    executions: Iterable[Execution]
    if fault.pids:
        executions = (one for pid in fault.pids for one in story.by_pid.get(pid, ()))
    else:
        executions = story.executions if fault.kind in OUTAGES else ()
    return (one for one in executions if one.is_open_at(fault.at) and _is_alive_at(story, one, fault.at))


def _is_alive_at(story: Story, execution: Execution, at: float) -> bool:
    """Whether nothing had killed its process before. What nobody saw end seems to be under way for ever."""
    return not any(
        fault.kind in DEADLY and execution.pid in fault.pids and execution.began <= fault.at < at
        for fault in story.faults
    )


def _victims(story: Story, fault: Fault) -> Iterator[Execution]:
    """Of each run that a killed process was working on, one step that was under way."""
    seen = set()
    for execution in _open_at(story, fault):
        if execution.run not in seen and _has_claim(story, execution, fault.at):
            seen.add(execution.run)
            yield execution


def _has_claim(story: Story, execution: Execution, at: float) -> bool:
    changes = [one for one in story.changes.get(execution.run, ()) if story.monotonic(one.at) <= at]
    return bool(changes) and changes[-1].token == execution.token


def _recovery(story: Story, fault: Fault, execution: Execution) -> Recovery | None:
    went_on = _went_on(story, execution, fault.at)
    if went_on is None:
        return None
    out = story.helpless(fault.at, went_on)
    is_hit_again = any(
        later.at > fault.until
        for change in story.changes.get(execution.run, ())
        if change.is_claim and fault.at < story.monotonic(change.at) < went_on
        for later in story.hits((*DEADLY, FREEZE), story.pid_of(change), fault.until, went_on)
    )
    seconds = went_on - fault.at
    return Recovery(execution.run, execution.path, seconds, None if is_hit_again else seconds - out)


def _went_on(story: Story, execution: Execution, since: float) -> float | None:
    """When a later claim of the run began a step or journaled something, or the run was over."""
    began = (one.began for one in story.by_run[execution.run] if one.began > since and one.token != execution.token)
    wrote = (
        story.monotonic(one.at)
        for one in story.writings.get(execution.run, ())
        if one.token != execution.token and story.monotonic(one.at) > since
    )
    ending = story.ending(execution.run)
    ended = [] if ending is None else [story.monotonic(ending.at)]
    return min([*began, *wrote, *(at for at in ended if at > since)], default=None)


def percentile(values: Sequence[float], part: float) -> float:
    """The value that ``part`` (0 to 1) of them do not exceed; 0 of none."""
    return sorted(values)[min(int(len(values) * part), len(values) - 1)] if values else 0.0
