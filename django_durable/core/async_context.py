"""``ctx`` of an ``async def`` workflow: the calls of ``context.Context``, awaited."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from datetime import datetime, timedelta
from functools import wraps
from typing import Any, Protocol, TypeVar, TypeVarTuple, cast, overload
from uuid import UUID

from .facts import Facts
from .flow.effects import Decisions
from .flow.flow import Flow
from .flow.unawaited import Unawaited
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
C = TypeVar("C", bound=Callable[..., Coroutine[Any, Any, Any]])


class AsyncDrive(Protocol):
    """Executes what a flow decides and returns its value, on an event loop."""

    unawaited: Unawaited

    def __call__(self, decisions: Decisions[Any]) -> Awaitable[Any]: ...


def _awaited(make: C) -> C:
    """A call that the line notices as soon as it is made: nothing of a coroutine runs that is never awaited."""

    @wraps(make)
    def call(self: AsyncContext, *args: Any, **kw: Any) -> Any:
        return self._unawaited.add(make(self, *args, **kw))

    return cast(C, call)


class AsyncContext(Facts):
    """``ctx`` of an ``async def`` workflow: the same, awaited."""

    def __init__(self, flow: Flow, drive: AsyncDrive) -> None:
        super().__init__(flow)
        self._drive = drive
        self._unawaited = drive.unawaited

    @overload
    async def step(
        self,
        name: str,
        fn: Callable[[*Ts], Awaitable[T]],
        *args: *Ts,
        key: object = None,
        retry: Retry | None = None,
        timeout: timedelta | float | None = None,
        ephemeral: bool = False,
        compensate: Callable[[T], Any] | None = None,
    ) -> T: ...
    @overload
    async def step(
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
    ) -> T: ...
    def step(
        self,
        name: str,
        fn: Callable[[*Ts], Any],
        *args: *Ts,
        key: object = None,
        retry: Retry | None = None,
        timeout: timedelta | float | None = None,
        atomic: bool = False,
        ephemeral: bool = False,
        compensate: Callable[[Any], Any] | None = None,
    ) -> Any:
        """As ``Context.step``; ``fn`` may be a coroutine function or a plain one (run in the run's thread)."""
        # Not by the decorator: to hand on the arguments of every step would take longer than to take note of it.
        call = self._step(name, fn, args, key, retry, timeout, atomic, ephemeral, compensate)
        return self._unawaited.add(call)

    async def _step(self, name: str, fn: Callable[..., Any], args: tuple[Any, ...], key: object, *options: Any) -> Any:
        path = self._flow.claim(name, key)
        return await self._drive(step(self._flow, path, fn, args, step_options(*options)))

    @overload
    async def try_step(
        self,
        name: str,
        fn: Callable[[*Ts], Awaitable[T]],
        *args: *Ts,
        key: object = None,
        retry: Retry | None = None,
        timeout: timedelta | float | None = None,
        ephemeral: bool = False,
        compensate: Callable[[T], Any] | None = None,
    ) -> Outcome: ...
    @overload
    async def try_step(
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
    ) -> Outcome: ...
    @_awaited
    async def try_step(
        self,
        name: str,
        fn: Callable[[*Ts], Any],
        *args: *Ts,
        key: object = None,
        retry: Retry | None = None,
        timeout: timedelta | float | None = None,
        atomic: bool = False,
        ephemeral: bool = False,
        compensate: Callable[[Any], Any] | None = None,
    ) -> Outcome:
        """As ``Context.try_step``."""
        path, options = self._path(name, key), step_options(retry, timeout, atomic, ephemeral, compensate)
        return cast(Outcome, await self._drive(tries.try_step(step(self._flow, path, fn, args, options))))

    @_awaited
    async def try_block(
        self, name: str, fn: Callable[[AsyncContext], Awaitable[Any]], *, key: object = None
    ) -> Outcome:
        """As ``Context.try_block``."""
        return cast(Outcome, await self._drive(tries.try_block(self._flow, self._path(name, key), fn)))

    @_awaited
    async def join(
        self, name: str, branches: Mapping[str, Callable[[AsyncContext], Awaitable[Any]]], *, key: object = None
    ) -> dict[str, Any]:
        """As ``Context.join``."""
        return cast("dict[str, Any]", await self._drive(joins.join(self._flow, self._path(name, key), branches)))

    @_awaited
    async def race(
        self, name: str, branches: Mapping[str, Callable[[AsyncContext], Awaitable[Any]]], *, key: object = None
    ) -> tuple[str, Any]:
        """As ``Context.race``."""
        return cast("tuple[str, Any]", await self._drive(races.race(self._flow, self._path(name, key), branches)))

    @overload
    async def map(
        self,
        name: str,
        work: Startable,
        items: Iterable[Any],
        *,
        max_parallel: int | None = None,
        key: object = None,
    ) -> list[Any]: ...
    @overload
    async def map(
        self,
        name: str,
        work: Callable[[I], Awaitable[T]],
        items: Iterable[I],
        *,
        max_parallel: int | None = None,
        key: object = None,
    ) -> list[T]: ...
    @overload
    async def map(
        self,
        name: str,
        work: Callable[[I], T],
        items: Iterable[I],
        *,
        max_parallel: int | None = None,
        key: object = None,
    ) -> list[T]: ...
    @_awaited
    async def map(
        self,
        name: str,
        work: Callable[[Any], Any] | Startable,
        items: Iterable[Any],
        *,
        max_parallel: int | None = None,
        key: object = None,
    ) -> list[Any]:
        """As ``Context.map``."""
        path = self._path(name, key)
        return cast("list[Any]", await self._drive(self._map(path, work, items, max_parallel)))

    @_awaited
    async def loop(
        self,
        name: str,
        fn: Callable[[AsyncContext, Any], Awaitable[Any]],
        state: Any = None,
        history: int = 20,
        max_iterations: int | None = None,
        *,
        key: object = None,
    ) -> Any:
        """As ``Context.loop``."""
        path = self._path(name, key)
        return await self._drive(loops.loop(self._flow, path, fn, state, history, max_iterations))

    @_awaited
    async def rollback_checkpoint(self, name: str, *, key: object = None) -> None:
        """As ``Context.rollback_checkpoint``."""
        await self._drive(checkpoints.checkpoint(self._flow, self._path(name, key)))

    @_awaited
    async def sleep(self, name: str, duration: timedelta | float, *, key: object = None) -> None:
        """As ``Context.sleep``."""
        sleeps.sleep(self._flow, self._path(name, key), duration)

    @_awaited
    async def sleep_until(self, name: str, when: datetime, *, key: object = None) -> None:
        """As ``Context.sleep_until``."""
        sleeps.sleep_until(self._flow, self._path(name, key), when)

    @_awaited
    async def wait_for_event(
        self,
        name: str,
        *,
        event: str | None = None,
        timeout: timedelta | float | None = None,
        default: D = events.MISSING,
        key: object = None,
    ) -> events.Event | D:
        """As ``Context.wait_for_event``."""
        path = self._path(name, key)
        decisions = events.wait_for_event(self._flow, path, name if event is None else event, timeout, default)
        return cast("events.Event | D", await self._drive(decisions))

    @_awaited
    async def wait_for_events(
        self,
        name: str,
        *,
        events: Iterable[str],
        count: int = 1,
        timeout: timedelta | float | None = None,
        key: object = None,
    ) -> list[Event]:
        """As ``Context.wait_for_events``."""
        path = self._path(name, key)
        return cast("list[Event]", await self._drive(wait_for_events(self._flow, path, events, count, timeout)))

    @overload
    async def poll(
        self,
        name: str,
        fn: Callable[[], Awaitable[T | Pending]],
        *,
        every: polls.Every,
        timeout: timedelta | float | None = None,
        retry: Retry | None = None,
        key: object = None,
    ) -> T: ...
    @overload
    async def poll(
        self,
        name: str,
        fn: Callable[[], T | Pending],
        *,
        every: polls.Every,
        timeout: timedelta | float | None = None,
        retry: Retry | None = None,
        key: object = None,
    ) -> T: ...
    @_awaited
    async def poll(
        self,
        name: str,
        fn: Callable[[], Any],
        *,
        every: polls.Every,
        timeout: timedelta | float | None = None,
        retry: Retry | None = None,
        key: object = None,
    ) -> Any:
        """As ``Context.poll``; ``fn`` may be a coroutine function or a plain one (run in the run's thread)."""
        return await self._drive(polls.poll(self._flow, self._path(name, key), fn, every, timeout, retry))

    @_awaited
    async def run_workflow(self, name: str, workflow: Startable, /, *args: Any, **kw: Any) -> Any:
        """As ``Context.run_workflow``."""
        key, make = self._child("run_workflow", workflow, args, kw)
        return await self._drive(children.run_child(self._flow, self._path(name, key), make))

    @_awaited
    async def start_workflow(self, name: str, workflow: Startable, /, *args: Any, **kw: Any) -> UUID:
        """As ``Context.start_workflow``."""
        key, make = self._child("start_workflow", workflow, args, kw)
        decisions = children.start_child(self._flow, self._path(name, key), make)
        return cast(UUID, await self._drive(decisions))
