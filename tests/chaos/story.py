"""The evidence, put in order: who executed what, under which claim, and what hit them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import TypeVar

from tests.chaos.evidence import Began, Change, EntryRow, Evidence, Fault, RunRow, Written
from tests.chaos.faults import DEADLY, DELAY, FREEZE, LEAVES, OF_POSTGRES, OUTAGES
from tests.chaos.programs import Step, steps_of
from tests.chaos.witness import BEGIN, DIE, END, Line

TERMINAL = ("succeeded", "failed", "cancelled")
UNDO = "%undo"
CLOCK_STEP = 0.04
"""Seconds by which a machine may set the time of day back at once, by which the database says when something is due."""

Span = tuple[float, float]
"""From when to when, CLOCK_MONOTONIC."""

K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class Execution:
    """A step's body ran. ``moment`` is how it ended, at ``ended``: both empty where nobody saw it end."""

    run: str
    path: str
    attempt: int
    token: str
    pid: int
    by: str
    began: float
    ended: float | None = None
    moment: str = ""

    @property
    def is_undo(self) -> bool:
        return self.path.endswith(UNDO)

    def is_open_at(self, instant: float) -> bool:
        return self.began <= instant and (self.ended is None or self.ended > instant)


class Story:
    """Times are CLOCK_MONOTONIC; where the database told them, they were made so."""

    def __init__(self, evidence: Evidence, *, lease: float) -> None:
        self.evidence = evidence
        self.lease = lease
        self.runs = {run.id: run for run in evidence.runs}
        self.by_tag: dict[str, list[RunRow]] = _grouped((run.tag, run) for run in evidence.runs if run.tag)
        self.entries: dict[str, list[EntryRow]] = _grouped((entry.run, entry) for entry in evidence.entries)
        self.changes: dict[str, list[Change]] = _grouped((change.run, change) for change in evidence.changes)
        self.writings: dict[str, list[Written]] = _grouped((written.run, written) for written in evidence.writings)
        self.claims = {change.token: change for change in evidence.changes if change.is_claim}
        self._steps: dict[str, dict[str, Step]] = {}

    @cached_property
    def executions(self) -> list[Execution]:
        """In the order in which they began."""
        found: dict[str, Execution] = {}
        for line in self.evidence.lines:
            if line.moment == BEGIN:
                found.setdefault(line.by, _begun(line))
            elif line.by in found and found[line.by].ended is None:
                found[line.by].moment = line.moment
                # Who is about to die has not come to its end.
                found[line.by].ended = None if line.moment == DIE else line.at
        return sorted(found.values(), key=lambda execution: execution.began)

    @cached_property
    def ends(self) -> dict[str, list[Line]]:
        """How the function of a run has ended under each claim that it was called under, by the claims' tokens. More
        than once where it was called to see what there is to undo."""
        return _grouped((line.token, line) for line in self.evidence.lines if not line.path)

    @cached_property
    def by_step(self) -> dict[tuple[str, str], list[Execution]]:
        """The executions of each step, by run and path."""
        return _grouped(((one.run, one.path), one) for one in self.executions)

    @cached_property
    def by_run(self) -> dict[str, list[Execution]]:
        return _grouped((one.run, one) for one in self.executions)

    @cached_property
    def by_pid(self) -> dict[int, list[Execution]]:
        return _grouped((one.pid, one) for one in self.executions)

    @cached_property
    def ended(self) -> dict[str, Execution]:
        """The executions that came to their end, by what tells them apart."""
        return {one.by: one for one in self.executions if one.moment == END}

    @cached_property
    def faults(self) -> list[Fault]:
        """What the nemesis did, and the steps that killed their own process."""
        poison = [Fault("poison", line.at, line.at, (line.pid,)) for line in self.evidence.lines if line.moment == DIE]
        return sorted([*self.evidence.faults, *poison], key=lambda fault: fault.at)

    @cached_property
    def first_written(self) -> dict[tuple[str, str], Written]:
        """Of each step and compensation that has succeeded, when that was journaled."""
        found: dict[tuple[str, str], Written] = {}
        for written in self.evidence.writings:
            if written.kind in ("step", "undo") and written.status == "succeeded":
                found.setdefault((written.run, written.path), written)
        return found

    @cached_property
    def cancels(self) -> dict[str, float | None]:
        """The runs that the client has tried to cancel, with the instant at which that was acknowledged first."""
        found: dict[str, float | None] = {}
        for said in self.evidence.said:
            if said.verb == "cancel":
                for run_id in said.runs.values():
                    known = found.setdefault(run_id, None)
                    if said.moment == "ok" and known is None:
                        found[run_id] = said.at
        return found

    def monotonic(self, at: float) -> float:
        """The database's time as CLOCK_MONOTONIC."""
        return at - self.evidence.epoch

    def pid_of(self, change: Change) -> int:
        """The process that had the lease which the change gives or ends."""
        return self.evidence.workers.get(change.worker or "", 0)

    def steps(self, run: RunRow) -> dict[str, Step]:
        """The steps of the run's program by their paths."""
        if run.id not in self._steps:
            self._steps[run.id] = {step.path: step for step in steps_of(run.program)}
        return self._steps[run.id]

    def step_of(self, run: str, path: str) -> Step | None:
        """What the program says of a step or of its compensation."""
        row = self.runs.get(run)
        return None if row is None else self.steps(row).get(path.removesuffix(UNDO))

    def ancestors(self, run: RunRow) -> Iterator[RunRow]:
        """The run, its parent, and so on."""
        current: RunRow | None = run
        while current is not None:
            yield current
            current = self.runs.get(current.parent or "")

    def ending(self, run: str) -> Change | None:
        """The change by which a run was over for the first time."""
        return next((change for change in self.changes.get(run, ()) if change.status in TERMINAL), None)

    def hits(self, kinds: Iterable[str], pid: int, since: float, until: float) -> list[Fault]:
        """The faults of these kinds that a process may have felt in that time."""
        return [
            fault
            for fault in self.faults
            if fault.kind in kinds
            and fault.at <= until
            and fault.until + self._aftermath(fault) >= since
            and (not fault.pids or pid in fault.pids)
        ]

    def away(self, since: float, until: float) -> float:
        """How many seconds of a time nobody got an answer from PostgreSQL."""
        return _covered(self._outages, since, until)

    def hampered(self, since: float, until: float) -> float:
        """How many seconds of a time nobody got an answer from PostgreSQL, or everybody got it late."""
        return _covered([*self._outages, *self._spans(DELAY)], since, until)

    def helpless(self, since: float, until: float) -> float:
        """How many seconds of a time nobody got an answer from PostgreSQL, or there was no supervisor to ask."""
        return _covered([*self._outages, *self._deserted(since, until)], since, until)

    @cached_property
    def _outages(self) -> list[Span]:
        return self._spans(*OUTAGES)

    def _spans(self, *kinds: str) -> list[Span]:
        return [(fault.at, fault.until) for fault in self.faults if fault.kind in kinds]

    def _deserted(self, since: float, until: float) -> Iterator[Span]:
        """When no supervisor was there that had come to work: one had been killed with its processes or was draining,
        another one frozen, and who was to take the place of the first had only begun. One that has lost a process is
        there: to take up what that was working on is its task."""
        reached = since
        for begins, ends in sorted(self._supervised):
            if begins >= until:
                break
            if begins > reached:
                yield reached, begins
            reached = max(reached, ends)
        # Where nobody has told who came when, nothing is excused.
        if reached < until and self._supervised:
            yield reached, until

    @cached_property
    def _supervised(self) -> list[Span]:
        places = _grouped((began.place, began) for began in self.evidence.began)
        return [span for processes in places.values() for span in self._supervised_at(processes)]

    def _supervised_at(self, processes: list[Began]) -> Iterator[Span]:
        """From when to when there was a supervisor at the place of these."""
        pids = {began.pid for began in processes}
        goes = [
            (fault.at, fault.until if fault.kind == FREEZE else inf)
            for fault in self.faults
            if fault.kind in (*LEAVES, FREEZE) and not pids.isdisjoint(fault.pids)
        ]
        comes = [(self.monotonic(began.at), None) for began in processes if not began.is_isolated]
        up = inf
        for at, back in sorted([*goes, *comes], key=lambda event: event[0]):
            if back is None:
                up = min(up, at)
            elif up <= at:
                yield up, at
                up = back
        if up < inf:
            yield up, inf

    def _aftermath(self, fault: Fault) -> float:
        """Seconds after its end in which a fault is still felt: leases that could not be renewed lapse. And who is
        killed does what its other threads are about to do until the signal has come to it."""
        return self.lease if fault.kind in (*OF_POSTGRES, *DEADLY) else 0.0


def _begun(line: Line) -> Execution:
    return Execution(line.run, line.path, line.attempt, line.token, line.pid, line.by, line.at)


def _covered(spans: Iterable[Span], since: float, until: float) -> float:
    """How many seconds of a time lie within at least one of the spans."""
    covered, reached = 0.0, since
    for begins, ends in sorted(spans):
        begins, ends = max(begins, reached), min(ends, until)
        if ends > begins:
            covered += ends - begins
            reached = ends
    return covered


def _grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    groups: dict[K, list[V]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return dict(groups)
