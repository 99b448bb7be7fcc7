"""Drives a flow with dicts, for the tests of the core: what is durable of one run, and the little a driver does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django_durable.core.context import Context
from django_durable.core.flow.effects import (
    Answer,
    AwaitBranch,
    Decisions,
    Effect,
    Ended,
    Enter,
    Perform,
    Performed,
    Persist,
    Raised,
    Refresh,
    Returned,
    Spawn,
    Stop,
)
from django_durable.core.flow.executing import enter_line, enter_run, leave_line, leave_run
from django_durable.core.flow.flow import Flow
from django_durable.core.flow.lease import Lease
from django_durable.core.flow.run_info import RunInfo
from django_durable.core.flow.stepping import CurrentStep, enter_step, leave_step
from django_durable.core.flow.undoing import UNDO
from django_durable.core.forking import cut
from django_durable.core.ids import uuid7
from django_durable.core.journal.annotations import merged
from django_durable.core.journal.inbox import ChildState, SentEvent
from django_durable.core.journal.journal import Entry, MemoryJournal, NewRun, Write
from django_durable.core.journal.log import Logged
from django_durable.core.journal.losers import is_lost
from django_durable.core.journal.outcomes import Completed, Failed, Lost, Outcome, Paused, Suspended, together
from django_durable.core.journal.states import EntryStatus, Kind
from django_durable.core.kinds.compensation import settle_losers, undo_run
from django_durable.core.payloads.codec import decode, encode
from django_durable.core.payloads.failures import describe
from django_durable.core.retries import Retry
from django_durable.core.unwinding import Unwind

RUN_ID = UUID("01890000-0000-7000-8000-000000000001")
TOKEN = UUID("00000000-0000-4000-8000-000000000002")
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
AT_ONCE = Retry(max_attempts=3, initial=0, maximum=0)
Body = Callable[[Context], Any]


class Crash(BaseException):
    """The process dies: nothing that was not committed is left."""


@dataclass
class World:
    """One run: what the database has of it, and what happened."""

    step_retry: Retry = field(default_factory=Retry)
    now: datetime = NOON
    deadline_at: datetime | None = None
    max_payload_bytes: int | None = None
    lease_margin: float = 0.0
    warn_entries: int | None = None
    max_entries: int | None = None
    entries: dict[str, Entry] = field(default_factory=dict)
    events: list[SentEvent] = field(default_factory=list)
    taken: dict[str, int] = field(default_factory=dict)
    """The ids of the events that were taken, by the paths at which they were."""
    answers: dict[int, Any] = field(default_factory=dict)
    """The responses to events, by id."""
    children: dict[str, ChildState] = field(default_factory=dict)
    commits: list[Write] = field(default_factory=list)
    performed: list[str] = field(default_factory=list)
    """Paths of the steps whose bodies ran, in order."""
    progress: str | None = None
    notes: str | None = None
    log: list[Logged] = field(default_factory=list)
    keeps_log: bool = True
    crash_after: set[int] = field(default_factory=set)
    """The process dies right after these many commits."""
    cancel_after: int | None = None
    """A cancellation is asked for right after this many commits."""
    pause_after: set[int] = field(default_factory=set)
    """A pause is asked for right after these many commits; ``run`` goes on from it."""
    crash_before: int | None = None
    """The process dies instead of making this commit."""
    lease: Lease = field(default_factory=lambda: Lease(RUN_ID, TOKEN, ends=float("inf")))
    flow: Flow = field(init=False)
    _line: Line = field(init=False)
    error: BaseException | None = None
    """What the function raised in the latest attempt, where that and nothing else ended it."""
    attempts: int = 0
    unwanted: list[str] = field(default_factory=list)
    """Where the run has cancelled children."""
    pick: Callable[[list[Spawn]], Spawn] = field(default=lambda spawned: spawned[0])
    """Which branch runs next."""

    def attempt(self, body: Body, *, settles: bool = True) -> Outcome:
        """Call ``body`` from the top, as a claim does; its outcome is committed. ``settles``: what losers of races have
        done is undone first."""
        self.attempts += 1
        self.error = None
        journal = MemoryJournal(deepcopy(self.entries), list(self.events), dict(self.children), now=lambda: self.now)
        info = RunInfo(
            RUN_ID,
            "shop.order",
            deadline_at=self.deadline_at,
            max_payload_bytes=self.max_payload_bytes,
            lease_margin=self.lease_margin,
            warn_entries=self.warn_entries,
            max_entries=self.max_entries,
            keeps_log=self.keeps_log,
            has_begun=self.attempts > 1,
        )
        self.flow = Flow(info, journal, self.lease, self.step_retry, chance=lambda: 0.5)
        outcome = self._call(body)
        if settles and isinstance(outcome, Completed | Suspended):
            outcome = self._settle(body, outcome)
        if not isinstance(outcome, Lost):
            write = self.flow.take_pending()
            write.outcome = outcome
            self.commit(write)
        return outcome

    def undo(self, body: Body) -> dict[str, Any]:
        """Undo what the run has done, as the attempts of its compensating phase do; the errors by path."""
        for _ in range(50):
            try:
                outcome = self.attempt(lambda ctx: self._undo(body), settles=False)
            except Crash:
                continue
            if isinstance(outcome, Completed):
                return dict(decode(outcome.output))
            assert isinstance(outcome, Suspended), outcome
            due = wake_of(self, outcome)
            assert due is not None
            self.now = max(self.now, due)
        raise AssertionError("it is not undone after 50 attempts")

    def resume(self) -> None:
        """What the operator's verb makes of the journal of a run that was cancelled."""
        self.lease.cancel_requested = False
        for path, undo in [(path, entry) for path, entry in self.entries.items() if entry.kind == Kind.UNDO]:
            if undo.status == EntryStatus.SUCCEEDED and not is_lost(path, self.entries.get):
                step = self.entries[path.removesuffix(UNDO)]
                again = EntryStatus.RETRYING
                self.entries[step.path] = replace(step, status=again, attempts=0, undo=False, wake_at=None)
                self.entries[path] = replace(undo, status=EntryStatus.OPEN, attempts=0, value=None)
            elif undo.status not in (EntryStatus.OPEN, EntryStatus.SUCCEEDED):
                del self.entries[path]

    def cut(self, from_step: str) -> dict[str, Entry]:
        """What a fork of the run begins with."""
        return {entry.path: entry for entry in cut(RUN_ID, deepcopy([*self.entries.values()]), from_step)}

    def _undo(self, body: Body) -> Any:
        self.flow.heeds_cancel = False
        return self.drive(undo_run(self.flow, body))

    def _call(self, body: Body) -> Outcome:
        token = enter_run(self.flow)
        try:
            self._line = Line(self, self.flow)
            value = body(Context(self.flow, self._line))
        except Crash:
            raise
        except BaseException as error:
            if self.flow.outcome is None:
                self.error = error
                return Failed(describe(error))
            return self.flow.outcome
        finally:
            leave_run(token)
        return self.flow.outcome or Completed(encode(value))

    def _settle(self, body: Body, outcome: Completed | Suspended) -> Outcome:
        self.flow.outcome = None
        try:
            self._line(settle_losers(self.flow, body, goes_on=isinstance(outcome, Suspended)))
        except Unwind:
            second = self.flow.outcome
            assert second is not None
            both = isinstance(outcome, Suspended) and isinstance(second, Suspended)
            return together([outcome, second], outcome.waiting_on) if both else second
        return outcome

    def drive(self, decisions: Decisions[Any]) -> Any:
        return Line(self, self.flow)(decisions)

    def commit(self, write: Write) -> None:
        if not write:
            return
        if len(self.commits) + 1 == self.crash_before:
            self.crash_before = None
            raise Crash
        self.commits.append(write)
        for entry in write.entries.values():
            stored = deepcopy(entry)
            if stored.wake_at is None and stored.wake_after is not None:
                stored.wake_at = self.now + timedelta(seconds=stored.wake_after)
            stored.wake_after = None
            self.entries[entry.path] = stored
        for path in write.forgotten - write.entries.keys():
            self.entries.pop(path, None)
        self.unwanted += write.unwanted
        self.events = [event for event in self.events if event.id not in (write.consumed or {})]
        self.taken.update({path: event_id for event_id, path in (write.consumed or {}).items()})
        for path, response in (write.answers or {}).items():
            self.answers.setdefault(self.taken[path], decode(response))
        for child in write.children:
            assert child.parent_path not in self.children, "a child was started twice"
            self.children[child.parent_path] = ChildState(child.id, "queued")
        self.progress = write.progress or self.progress
        self.notes = merged(self.notes, write.notes) if write.notes else self.notes
        for line in write.log.to_send() if write.log is not None else ():
            if not (line.is_again and any(stored.place == line.place for stored in self.log)):
                self.log.append(line)
        if len(self.commits) == self.cancel_after:
            self.lease.cancel_requested = True
        if len(self.commits) in self.pause_after:
            self.lease.pause_requested = True
        if len(self.commits) in self.crash_after:
            raise Crash

    def send(self, name: str, payload: Any = None) -> None:
        self.events.append(SentEvent(len(self.commits) * 1000 + len(self.events), name, encode(payload), self.now))

    def run(self, body: Body, *, limit: int = 50) -> Outcome:
        """Attempts until the run is over or waits for something other than time; crashes are survived."""
        for _ in range(limit):
            try:
                outcome = self.attempt(body)
            except Crash:
                continue
            if isinstance(outcome, Paused):
                self.lease.pause_requested = False
                continue
            if not isinstance(outcome, Suspended):
                return outcome
            due = wake_of(self, outcome)
            if due is None:
                return outcome
            self.now = max(self.now, due)
        raise AssertionError(f"not over after {limit} attempts")

    def value(self, body: Body) -> Any:
        """The value of a run that succeeds."""
        outcome = self.run(body)
        assert isinstance(outcome, Completed), outcome
        return decode(outcome.output)


class Line:
    """One line of execution. Branches run one after the other, when somebody waits for them,
    in the order that ``world.pick`` draws: what comes out must not depend on it."""

    def __init__(self, world: World, flow: Flow, around: Line | None = None) -> None:
        self._world = world
        self._flow = flow
        self._spawned: list[Spawn] = around._spawned if around is not None else []

    def __call__(self, decisions: Decisions[Any]) -> Any:
        answer: Answer = None
        try:
            while True:
                effect = decisions.send(answer)
                answer = self.execute(effect)
        except StopIteration as stop:
            return stop.value

    def execute(self, effect: Effect) -> Answer:
        match effect:
            case Perform():
                return self._perform(effect)
            case Persist():
                self._world.commit(self._flow.take_pending())
            case Enter(part, body):
                return self._enter(part, body)
            case Spawn():
                self._spawned.append(effect)
            case AwaitBranch(branches, seconds):
                return self._await_branch(branches, seconds)
            case Refresh():
                self._flow.journal.inbox.refresh(self._world.events, self._world.children)
            case Stop():
                pass
        return None

    def _enter(self, part: Flow, body: Body) -> Performed:
        line = Line(self._world, part, self)
        token = enter_line(part)
        try:
            return Returned(body(Context(part, line)), 0.25)
        except Crash:
            raise
        except BaseException as error:
            return Raised(error, 0.25)
        finally:
            leave_line(token)

    def _await_branch(self, branches: Sequence[Flow], seconds: float | None) -> Ended | None:
        waited = [spawn for spawn in self._spawned if spawn.branch in branches]
        if not waited:
            assert seconds is not None, "it would wait for ever"
            self._world.now += timedelta(seconds=seconds)
            return None
        spawn = self._world.pick(waited)
        self._spawned.remove(spawn)
        if spawn.branch.is_stopped:
            return Ended(spawn.branch, Raised(Unwind(), 0.0))
        return Ended(spawn.branch, self._enter(spawn.branch, spawn.body))

    def _perform(self, effect: Perform) -> Performed:
        world = self._world
        world.performed.append(effect.path)
        answer = perform(effect, world.lease, self._flow.heeds_cancel)
        if effect.settle is not None and isinstance(answer, Returned):
            return self._commit_atomically(effect.settle, answer)
        return answer

    def _commit_atomically(self, settle: Callable[[Returned], Entry], returned: Returned) -> Performed:
        """What a driver owes an atomic step: body, pending rows and journal row in one commit."""
        try:
            entry = settle(returned)
        except ValueError as error:
            return Raised(error, 0.0)
        self._flow.record(entry)
        self._world.commit(self._flow.take_pending())
        return returned


def wake_of(world: World, outcome: Suspended) -> datetime | None:
    """When the stored run wakes, as the statement that suspends it reckons."""
    after = None if outcome.wake_after is None else world.now + timedelta(seconds=outcome.wake_after)
    return min((when for when in (outcome.wake_at, after) if when is not None), default=None)


def perform(effect: Perform, lease: Lease, heeds_cancel: bool = True) -> Performed:
    token = enter_step(CurrentStep(RUN_ID, effect.path, effect.attempt, lease, heeds_cancel=heeds_cancel))
    try:
        return Returned(effect.fn(*effect.args), 0.25)
    except (Crash, Unwind):
        raise
    except BaseException as error:
        return Raised(error, 0.25)
    finally:
        leave_step(token)


def failing(*errors: BaseException | None) -> Callable[[], int]:
    """A function that raises these in turn (None: returns), and returns the number of its call from then on."""
    left = list(errors)
    calls = 0

    def fn() -> int:
        nonlocal calls
        calls += 1
        error = left.pop(0) if left else None
        if error is not None:
            raise error
        return calls

    return fn


class Pack:
    """As much of a workflow as a parent needs; ``made`` are the runs that it was asked for."""

    def __init__(self, key: object = None) -> None:
        self.child_key = key
        self.made: list[NewRun] = []

    def new_child(self, parent: RunInfo, path: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NewRun:
        run = NewRun(uuid7(), "shop.pack", encode([list(args), kwargs]), parent_id=parent.run_id, parent_path=path)
        self.made.append(run)
        return run


def end(world: World, path: str, status: str, output: Any = None, error: Any = None) -> UUID:
    run_id = world.children[path].run_id
    world.children[path] = ChildState(
        run_id, status, encode(output) if status == "succeeded" else None, error and encode(error)
    )
    return run_id
