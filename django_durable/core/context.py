"""``ctx`` of a ``def`` workflow: it names the calls; the step kinds decide; a driver executes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar, TypeVarTuple, cast, overload
from uuid import UUID

from .facts import Facts
from .flow.effects import Decisions
from .flow.flow import Flow
from .kinds import checkpoints, children, events, joins, loops, polls, races, sleeps, tries
from .kinds.children import Startable
from .kinds.events import Event, wait_for_events
from .kinds.polls import Pending
from .kinds.steps import step, step_options
from .kinds.tries import Outcome
from .retries import Retry

T = TypeVar("T")
I = TypeVar("I")  # noqa: E741
D = TypeVar("D")
Ts = TypeVarTuple("Ts")


class Drive(Protocol):
    """Executes what a flow decides and returns its value (sync driver)."""

    def __call__(self, decisions: Decisions[Any]) -> Any: ...


class Context(Facts):
    """``ctx`` of a ``def`` workflow."""

    def __init__(self, flow: Flow, drive: Drive) -> None:
        super().__init__(flow)
        self._drive = drive

    def step(
        self,
        name: str,
        fn: Callable[[*Ts], T],
        *args: *Ts,
        key: object = None,
        retry: Retry | None = None,
        timeout: timedelta | float | None = None,
        atomic: bool = False,
        ephemeral: bool = False,
        compensate: Callable[[T], Any] | None = None,
    ) -> T:
        """Run ``fn(*args)`` once and journal what it returns; StepFailed when its retries are used up."""
        path, options = self._path(name, key), step_options(retry, timeout, atomic, ephemeral, compensate)
        return cast(T, self._drive(step(self._flow, path, fn, args, options)))

    def try_step(
        self,
        name: str,
        fn: Callable[[*Ts], T],
        *args: *Ts,
        key: object = None,
        retry: Retry | None = None,
        timeout: timedelta | float | None = None,
        atomic: bool = False,
        ephemeral: bool = False,
        compensate: Callable[[T], Any] | None = None,
    ) -> Outcome:
        """As ``step``, and what StepFailed would say comes back as data; a RollbackError goes its way."""
        path, options = self._path(name, key), step_options(retry, timeout, atomic, ephemeral, compensate)
        return cast(Outcome, self._drive(tries.try_step(step(self._flow, path, fn, args, options))))

    def try_block(self, name: str, fn: Callable[[Context], Any], *, key: object = None) -> Outcome:
        """Run ``fn(ctx)`` in a scope of its own; what leaves it comes back as data; a RollbackError goes its way."""
        return cast(Outcome, self._drive(tries.try_block(self._flow, self._path(name, key), fn)))

    def join(
        self, name: str, branches: Mapping[str, Callable[[Context], Any]], *, key: object = None
    ) -> dict[str, Any]:
        """Run all ``branches`` side by side, each with a ``ctx`` of its own; their results, or JoinError."""
        return cast("dict[str, Any]", self._drive(joins.join(self._flow, self._path(name, key), branches)))

    def race(
        self, name: str, branches: Mapping[str, Callable[[Context], Any]], *, key: object = None
    ) -> tuple[str, Any]:
        """Name and value of the first branch that succeeds; RaceError where none does. Losers are undone."""
        return cast("tuple[str, Any]", self._drive(races.race(self._flow, self._path(name, key), branches)))

    @overload
    def map(
        self,
        name: str,
        work: Startable,
        items: Iterable[Any],
        *,
        max_parallel: int | None = None,
        key: object = None,
    ) -> list[Any]: ...
    @overload
    def map(
        self,
        name: str,
        work: Callable[[I], T],
        items: Iterable[I],
        *,
        max_parallel: int | None = None,
        key: object = None,
    ) -> list[T]: ...
    def map(
        self,
        name: str,
        work: Callable[[Any], Any] | Startable,
        items: Iterable[Any],
        *,
        max_parallel: int | None = None,
        key: object = None,
    ) -> list[Any]:
        """``work`` for each item side by side: a function as a step each, a workflow as a child each; the results in
        the order of ``items``. JoinError where any failed, once all have ended."""
        path = self._path(name, key)
        return cast("list[Any]", self._drive(self._map(path, work, items, max_parallel)))

    def loop(
        self,
        name: str,
        fn: Callable[[Context, Any], Any],
        state: Any = None,
        history: int = 20,
        max_iterations: int | None = None,
        *,
        key: object = None,
    ) -> Any:
        """Call ``fn(ctx, state)`` until it returns ``Break(value)``; ``Continue(state)`` goes on, so does None.

        ``history`` turns stay in the journal. LoopLimit after ``max_iterations``.
        """
        path = self._path(name, key)
        return self._drive(loops.loop(self._flow, path, fn, state, history, max_iterations))

    def rollback_checkpoint(self, name: str, *, key: object = None) -> None:
        """A point of no return: compensations registered before it are dropped."""
        self._drive(checkpoints.checkpoint(self._flow, self._path(name, key)))

    def sleep(self, name: str, duration: timedelta | float, *, key: object = None) -> None:
        """Wait for ``duration`` (timedelta or seconds), holding nothing."""
        sleeps.sleep(self._flow, self._path(name, key), duration)

    def sleep_until(self, name: str, when: datetime, *, key: object = None) -> None:
        """Wait until ``when`` (aware), holding nothing."""
        sleeps.sleep_until(self._flow, self._path(name, key), when)

    def wait_for_event(
        self,
        name: str,
        *,
        event: str | None = None,
        timeout: timedelta | float | None = None,
        default: D = events.MISSING,
        key: object = None,
    ) -> events.Event | D:
        """The next event sent to this run under ``event`` (default: ``name``); EventTimeout or ``default`` in vain."""
        path = self._path(name, key)
        decisions = events.wait_for_event(self._flow, path, name if event is None else event, timeout, default)
        return cast("events.Event | D", self._drive(decisions))

    def wait_for_events(
        self,
        name: str,
        *,
        events: Iterable[str],
        count: int = 1,
        timeout: timedelta | float | None = None,
        key: object = None,
    ) -> list[Event]:
        """The next ``count`` events sent to this run under any of the names ``events``, in the order in which they
        were sent; at the time-out those that have come."""
        path = self._path(name, key)
        return cast("list[Event]", self._drive(wait_for_events(self._flow, path, events, count, timeout)))

    def poll(
        self,
        name: str,
        fn: Callable[[], T | Pending],
        *,
        every: polls.Every,
        timeout: timedelta | float | None = None,
        retry: Retry | None = None,
        key: object = None,
    ) -> T:
        """Call ``fn()`` until it returns something other than PENDING, and journal that; holds nothing between.

        ``every``: a timedelta or seconds, or a function that makes it of the number of polls so far. PollTimeout once
        ``timeout`` is over; StepFailed when the retries of one poll are used up.
        """
        return cast(T, self._drive(polls.poll(self._flow, self._path(name, key), fn, every, timeout, retry)))

    def run_workflow(self, name: str, workflow: Startable, /, *args: Any, **kw: Any) -> Any:
        """Start a child run, wait for it without holding a slot, return its value or raise ChildFailed."""
        key, make = self._child("run_workflow", workflow, args, kw)
        return self._drive(children.run_child(self._flow, self._path(name, key), make))

    def start_workflow(self, name: str, workflow: Startable, /, *args: Any, **kw: Any) -> UUID:
        """Start a child run and go on; its id."""
        key, make = self._child("start_workflow", workflow, args, kw)
        return cast(UUID, self._drive(children.start_child(self._flow, self._path(name, key), make)))
