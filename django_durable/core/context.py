"""``ctx``: two thin typed faces of one flow. They name the calls; the step kinds decide; a driver executes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Protocol, TypeVar, TypeVarTuple, cast, overload
from uuid import UUID

from ..exceptions import RunCancelled
from . import children, events, notes, sleeps, values
from .effects import Effect, Performed
from .flow import Flow, RunInfo
from .journal import NewRun
from .retries import Retry
from .stepping import stable_key
from .steps import PLAIN, StepOptions, step

T = TypeVar("T")
D = TypeVar("D")
Ts = TypeVarTuple("Ts")
Decisions = Generator[Effect, Performed | None, T]


class Startable(Protocol):
    """A workflow (or ``workflow.using(...)``) as a parent starts it."""

    @property
    def child_key(self) -> object: ...

    def new_child(self, parent: RunInfo, path: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NewRun: ...


class Drive(Protocol):
    """Executes what a flow decides and returns its value (sync driver)."""

    def __call__(self, decisions: Decisions[Any]) -> Any: ...


class AsyncDrive(Protocol):
    """The same for event loops."""

    def __call__(self, decisions: Decisions[Any]) -> Awaitable[Any]: ...


def _options(
    retry: Retry | None, timeout: float | None, atomic: bool, ephemeral: bool, later: dict[str, Any]
) -> StepOptions:
    if later:
        raise TypeError(f"step() has no option {', '.join(sorted(later))} in this version.")
    if retry is None and timeout is None and not atomic and not ephemeral:
        return PLAIN
    return StepOptions(retry, timeout, atomic, ephemeral)


class Facts:
    """What both faces have and nobody has to wait for."""

    def __init__(self, flow: Flow, scope: str = "") -> None:
        self._flow = flow
        self._scope = scope

    @property
    def run_id(self) -> UUID:
        return self._flow.run.run_id

    @property
    def attempt(self) -> int:
        """The run's attempt, from 1; a crash does not count as one."""
        return self._flow.run.attempt

    @property
    def is_replaying(self) -> bool:
        """Whether everything so far came out of the journal."""
        return self._flow.is_replaying

    @property
    def cancelled(self) -> bool:
        return self._flow.lease.cancel_requested

    def raise_if_cancelled(self) -> None:
        """Raise RunCancelled where the run has been asked to stop."""
        if self.cancelled:
            raise RunCancelled(self.run_id)

    def now(self) -> datetime:
        """The time when this call was first reached (aware, UTC, the database's clock)."""
        return values.now(self._flow, self._scope)

    def uuid4(self) -> UUID:
        """A UUID that every replay draws again."""
        return values.uuid4(self._flow, self._scope)

    def random(self) -> float:
        """A float in [0, 1) that every replay draws again."""
        return values.random(self._flow, self._scope)

    def idempotency_key(self, name: str) -> str:
        """32 hex digits for outside systems: the same in every attempt and replay of this run."""
        return stable_key(self.run_id, self._scope, name)

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Tell how far the run has come; stored with its next durable write."""
        notes.progress(self._flow, done, total, message)

    @cached_property
    def log(self) -> notes.RunLog:
        """A logger that is silent under replay."""
        return notes.RunLog(self._flow)

    def _path(self, name: str, key: object = None) -> str:
        return self._flow.claim(self._scope, name, key)

    def _make_child(self, workflow: Startable, args: tuple[Any, ...], kw: dict[str, Any]) -> children.MakeRun:
        return lambda path: workflow.new_child(self._flow.run, path, args, kw)


class Context(Facts):
    """``ctx`` of a ``def`` workflow."""

    def __init__(self, flow: Flow, drive: Drive, scope: str = "") -> None:
        super().__init__(flow, scope)
        self._drive = drive

    def step(
        self,
        name: str,
        fn: Callable[[*Ts], T],
        *args: *Ts,
        key: object = None,
        retry: Retry | None = None,
        timeout: float | None = None,
        atomic: bool = False,
        ephemeral: bool = False,
        **later: Any,
    ) -> T:
        """Run ``fn(*args)`` once and journal what it returns; StepFailed when its retries are used up."""
        options = _options(retry, timeout, atomic, ephemeral, later)
        return cast(T, self._drive(step(self._flow, self._path(name, key), fn, args, options)))

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
        decisions = events.wait_for_event(self._flow, path, event or name, timeout, default)
        return cast("events.Event | D", self._drive(decisions))

    def run_workflow(self, name: str, workflow: Startable, /, *args: Any, **kw: Any) -> Any:
        """Start a child run, wait for it without holding a slot, return its value or raise ChildFailed."""
        make = self._make_child(workflow, args, kw)
        return self._drive(children.run_child(self._flow, self._path(name, workflow.child_key), make))

    def start_workflow(self, name: str, workflow: Startable, /, *args: Any, **kw: Any) -> UUID:
        """Start a child run and go on; its id."""
        make = self._make_child(workflow, args, kw)
        return cast(UUID, self._drive(children.start_child(self._flow, self._path(name, workflow.child_key), make)))


class AsyncContext(Facts):
    """``ctx`` of an ``async def`` workflow: the same, awaited."""

    def __init__(self, flow: Flow, drive: AsyncDrive, scope: str = "") -> None:
        super().__init__(flow, scope)
        self._drive = drive

    @overload
    async def step(
        self,
        name: str,
        fn: Callable[[*Ts], Awaitable[T]],
        *args: *Ts,
        key: object = None,
        retry: Retry | None = None,
        timeout: float | None = None,
        ephemeral: bool = False,
    ) -> T: ...
    @overload
    async def step(
        self,
        name: str,
        fn: Callable[[*Ts], T],
        *args: *Ts,
        key: object = None,
        retry: Retry | None = None,
        timeout: float | None = None,
        atomic: bool = False,
        ephemeral: bool = False,
    ) -> T: ...
    async def step(
        self,
        name: str,
        fn: Callable[[*Ts], Any],
        *args: *Ts,
        key: object = None,
        retry: Retry | None = None,
        timeout: float | None = None,
        atomic: bool = False,
        ephemeral: bool = False,
        **later: Any,
    ) -> Any:
        """As ``Context.step``; ``fn`` may be a coroutine function or a plain one (run in the run's thread)."""
        options = _options(retry, timeout, atomic, ephemeral, later)
        return await self._drive(step(self._flow, self._path(name, key), fn, args, options))

    async def sleep(self, name: str, duration: timedelta | float, *, key: object = None) -> None:
        """As ``Context.sleep``."""
        sleeps.sleep(self._flow, self._path(name, key), duration)

    async def sleep_until(self, name: str, when: datetime, *, key: object = None) -> None:
        """As ``Context.sleep_until``."""
        sleeps.sleep_until(self._flow, self._path(name, key), when)

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
        decisions = events.wait_for_event(self._flow, path, event or name, timeout, default)
        return cast("events.Event | D", await self._drive(decisions))

    async def run_workflow(self, name: str, workflow: Startable, /, *args: Any, **kw: Any) -> Any:
        """As ``Context.run_workflow``."""
        make = self._make_child(workflow, args, kw)
        return await self._drive(children.run_child(self._flow, self._path(name, workflow.child_key), make))

    async def start_workflow(self, name: str, workflow: Startable, /, *args: Any, **kw: Any) -> UUID:
        """As ``Context.start_workflow``."""
        make = self._make_child(workflow, args, kw)
        decisions = children.start_child(self._flow, self._path(name, workflow.child_key), make)
        return cast(UUID, await self._drive(decisions))
