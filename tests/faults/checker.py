"""Is what stands in the tables, and what the steps were seen to do, what the scenario promises after one fault?"""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from django_durable.conf import durable_settings
from django_durable.core.journal.states import Kind, PayloadKind, Status
from django_durable.core.payloads.codec import decode
from django_durable.models import Fire, JournalEntry, Payload, Run
from tests.app.models import Counter
from tests.faults.kinds import Action
from tests.faults.named import BEGINS_BODY
from tests.faults.scenarios import Scenario
from tests.faults.witness import Lines, Where, where

UNDO = "%undo"
BODIES = (Kind.STEP, Kind.UNDO)


@dataclass
class Facts:
    """``label`` and ``action`` of the fault; None: there was none."""

    scenario: Scenario
    lines: Lines
    label: str
    action: str | None
    began: UUID
    """An id from before the case: all of its runs have later ones."""

    @cached_property
    def runs(self) -> list[Run]:
        return list(Run.objects.filter(pk__gt=self.began).order_by("pk"))

    @cached_property
    def entries(self) -> list[JournalEntry]:
        return list(JournalEntry.objects.filter(run_id__gt=self.began).order_by("run_id", "seq"))

    @cached_property
    def payloads(self) -> dict[tuple[UUID, str], str]:
        """How runs ended, by run and kind; as stored."""
        ended = Payload.objects.filter(run_id__gt=self.began, kind__in=(PayloadKind.OUTPUT, PayloadKind.ERROR))
        return {(run_id, kind): data for run_id, kind, data in ended.values_list("run_id", "kind", "data")}

    @cached_property
    def fires(self) -> list[tuple[UUID | None, str]]:
        """The run and the outcome of each instant of a schedule that was due."""
        return list(Fire.objects.values_list("run_id", "outcome"))

    @cached_property
    def counters(self) -> dict[str, int]:
        """What atomic steps have written, by name."""
        return dict(Counter.objects.values_list("name", "value"))

    @cached_property
    def roots(self) -> list[Run]:
        return [run for run in self.runs if run.parent_id is None]

    def of(self, what: str) -> Lines:
        return [line for line in self.lines if line["what"] == what]

    @property
    def is_at_a_body(self) -> bool:
        """Whether the fault came right before a body, which nothing could keep from beginning after it."""
        return self.action in (Action.STALL, Action.TERMINATE) and self.label.startswith(BEGINS_BODY)

    @property
    def may_begin_late(self) -> bool:
        """Whether that body may by then be somebody else's."""
        return self.action == Action.STALL and self.is_at_a_body

    def values(self) -> dict[str, Any]:
        return {entry.path: decode(entry.value) for entry in self.entries if entry.value is not None}


Check = Callable[[Facts], Iterator[str]]


def problems_of(facts: Facts) -> list[str]:
    """What is wrong, in words."""
    return [problem for check in CHECKS for problem in check(facts)]


def one_run(facts: Facts) -> Iterator[str]:
    """A start that was answered has made one run; one that was not none or one, and one where it was made again."""
    acknowledged = {UUID(line["run"]) for line in facts.of("started")}
    scenario, count = facts.scenario, len(facts.roots)
    least = 1 if acknowledged or scenario.is_keyed or scenario.is_scheduled else 0
    if not least <= count <= 1:
        yield f"{count} runs were started, where {least} to 1 were to be"
    if lost := acknowledged - {run.pk for run in facts.roots}:
        yield f"lost: {lost}"
    if scenario.is_scheduled and [run_id for run_id, _ in facts.fires] != [run.pk for run in facts.roots]:
        yield f"the due instant has fired as {facts.fires}"


def ended_as_told(facts: Facts) -> Iterator[str]:
    """Cancelled where that was acknowledged, blocked where it crashed too often; else as the scenario says, with its
    result and all its steps."""
    cancelled = {UUID(line["run"]) for line in facts.of("cancelled")}
    for run in facts.roots:
        expected = Status.CANCELLED if run.pk in cancelled else _unless_it_crashed(facts, run)
        if run.status != expected:
            error = facts.payloads.get((run.pk, PayloadKind.ERROR))
            yield f"{run.status} ({run.block_reason or error}), and not {expected}"
        if expected in (Status.CANCELLED, Status.BLOCKED):
            continue
        if (paths := {entry.path for entry in facts.entries}) != facts.scenario.paths:
            yield f"journaled are {sorted(paths)}, and not {sorted(facts.scenario.paths)}"
        elif expected == Status.SUCCEEDED:
            yield from _result(facts, run)


def _unless_it_crashed(facts: Facts, run: Run) -> Status:
    """Blocked where it could not afford what its process did: to die, or to stand still until another took over. It may
    be too where a claim was done and reported as an error: what a process holds without knowing so it lets lapse."""
    is_at_stake = any(str(run.pk) in line["at_stake"] for line in facts.of("fault"))
    if is_at_stake and (facts.action == Action.DIE or facts.of("taken over")):
        return Status.BLOCKED
    was_claimed = run.status == Status.BLOCKED and run.claims > durable_settings().MAX_CRASHES
    if facts.scenario.is_suspect and was_claimed and facts.action == Action.AFTER:
        return Status.BLOCKED
    return facts.scenario.ends_as


def _result(facts: Facts, run: Run) -> Iterator[str]:
    stored = facts.payloads.get((run.pk, PayloadKind.OUTPUT))
    result, expected = None if stored is None else decode(stored), facts.scenario.result(facts.values())
    if result != expected:
        yield f"the result is {result!r}, and the journal makes {expected!r}"


def crashed_as_often_as_it_may(facts: Facts) -> Iterator[str]:
    """What is blocked for its crashes has made as many as it may, and journaled nothing; what has got on has none."""
    for run in facts.runs:
        allowed = durable_settings().MAX_CRASHES if run.status == Status.BLOCKED else 0
        if run.crashes != allowed:
            yield f"{run.status} after {run.crashes} crashes, and not {allowed}"
        if run.status == Status.BLOCKED and (paths := [entry.path for entry in facts.entries]):
            yield f"blocked, and journaled are {paths}"


def cancelled_with_its_parent(facts: Facts) -> Iterator[str]:
    """Of what hangs on a run whose cancellation was acknowledged, all is cancelled that was not over by then. What is
    detached is not, nor is a child of one that was over."""
    cancelled = {UUID(line["run"]) for line in facts.of("cancelled")}
    parents = [(run, run.cancel_requested_at) for run in facts.runs if run.pk in cancelled]
    while parents:
        parent, asked = parents.pop()
        for child in facts.runs:
            if child.parent_id != parent.pk or child.detached or _was_over(child, asked):
                continue
            parents.append((child, asked))
            if child.status != Status.CANCELLED:
                yield f"a child is {child.status}, and was not over when its parent was cancelled"


def _was_over(run: Run, at: datetime | None) -> bool:
    return at is not None and run.finished_at is not None and run.finished_at <= at


def begun_before_journaled(facts: Facts) -> Iterator[str]:
    """No body begins once its step is in the journal."""
    late = [line for line in facts.of("begin") if line["settled"]]
    allowed = 1 if facts.may_begin_late else 0
    for line in late[allowed:]:
        yield f"{line['path']!r} began although its journal entry was committed"


def executed_as_often_as_explained(facts: Facts) -> Iterator[str]:
    """Once, and once more where the fault came between its beginning and its commit; under one claim each attempt
    once."""
    begins = Count(where(line) for line in facts.of("begin"))
    hit = _hit(facts)
    for step, count in begins.items():
        if count > 1 + (step in hit):
            yield f"{step.path!r} was executed {count} times; the fault has {'' if step in hit else 'not '}hit it"
    attempts = Count((where(line), line["token"], line["attempt"]) for line in facts.of("begin"))
    for (step, token, attempt), count in attempts.items():
        if count > 1:
            yield f"attempt {attempt} of {step.path!r} was executed {count} times under the claim {token}"


def _hit(facts: Facts) -> set[Where]:
    """The steps that had begun when the fault came, or were about to, and were not in the journal."""
    begun: set[Where] = set()
    for line in facts.lines:
        if line["what"] == "begin":
            begun.add(where(line))
        if line["what"] == "fault":
            settled = {Where(*step) for step in line["settled"]}
            if facts.is_at_a_body:
                begun = {where(one) for one in facts.of("begin")}
            return begun - settled
    return set()


def journaled_as_seen(facts: Facts) -> Iterator[str]:
    """Each result in the journal is that of a body which was seen to end, under the claim that the entry names."""
    seen = {(where(line), line["token"], repr(line["value"])) for line in facts.of("end")}
    for entry in facts.entries:
        if entry.kind in BODIES and entry.status == "succeeded" and entry.value is not None:
            fact = (Where(str(entry.run_id), entry.path), entry.token.hex, repr(decode(entry.value)))
            if fact not in seen:
                yield f"{entry.path!r} is journaled as {fact[2]} under {fact[1]}, and nobody has seen that"


def atomic_once(facts: Facts) -> Iterator[str]:
    """What an atomic step has written stands as often as the step is journaled."""
    for path, name in facts.scenario.effects.items():
        journaled = sum(entry.path == path and entry.status == "succeeded" for entry in facts.entries)
        stands = facts.counters[name]
        if stands != journaled:
            yield f"{path!r} is journaled {journaled} times, and its writes stand {stands} times"


def undone_as_often_as_done(facts: Facts) -> Iterator[str]:
    """In a run that has not succeeded each step with a compensation that is done was undone, and no other."""
    done = {(entry.run_id, entry.path) for entry in facts.entries if entry.undo and entry.status == "succeeded"}
    undone = [
        (entry.run_id, entry.path.removesuffix(UNDO))
        for entry in facts.entries
        if entry.kind == Kind.UNDO and entry.status == "succeeded"
    ]
    if sorted(done) != sorted(undone):
        yield f"done were {sorted(path for _, path in done)}, and undone {sorted(path for _, path in undone)}"


def nothing_after_the_cancel(facts: Facts) -> Iterator[str]:
    """Once a cancellation is acknowledged no step begins but what undoes; of the step that is under way its retry may,
    where a fault has hit it before anybody could hear of the cancellation."""
    cancelled, under_way = False, set()
    for line in facts.lines:
        cancelled |= line["what"] == "cancelled"
        if line["what"] == "begin" and not line["path"].endswith(UNDO):
            if cancelled and where(line) not in under_way and not facts.may_begin_late:
                yield f"{line['path']!r} began after the cancellation"
            under_way.add(where(line))


CHECKS: tuple[Check, ...] = (
    one_run,
    ended_as_told,
    crashed_as_often_as_it_may,
    cancelled_with_its_parent,
    begun_before_journaled,
    executed_as_often_as_explained,
    journaled_as_seen,
    atomic_once,
    undone_as_often_as_done,
    nothing_after_the_cancel,
)
