"""Execute what a probe decides: user code of scopes is called, one scope after the other; no step ever is."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ..core.async_context import AsyncContext
from ..core.context import Context
from ..core.flow.effects import (
    Answer,
    AwaitBranch,
    Decisions,
    Effect,
    Ended,
    Enter,
    Perform,
    Performed,
    Raised,
    Returned,
    Spawn,
)
from ..core.flow.executing import enter_line, leave_line
from ..core.flow.flow import Flow
from ..core.flow.unawaited import Unawaited
from ..core.journal.outcomes import Stopped
from ..core.probing import Probe

Body = Callable[[Any], Any]


class ReplayDriver:
    """For ``def`` workflows. One for each line; what a line would persist stays in memory."""

    def __init__(self, flow: Flow, around: ReplayDriver | None = None) -> None:
        self._flow = flow
        self._ended: list[Ended] = around._ended if around is not None else []
        """Of all lines: a branch that lost a race is asked after by the line around its own."""

    def __call__(self, decisions: Decisions[Any]) -> Any:
        answer: Answer = None
        try:
            while True:
                effect = decisions.send(answer)
                match effect:
                    case Enter(part, body):
                        answer = self._enter(part, body)
                    case Spawn(part, body):
                        # Here and now, whoever wins: every branch is to come by what is journaled of it.
                        self._ended.append(Ended(part, self._enter(part, body)))
                        answer = None
                    case _:
                        answer = self._answer(effect)
        except StopIteration as stop:
            return stop.value

    def _enter(self, part: Flow, body: Body) -> Performed:
        token = enter_line(part)
        try:
            return Returned(body(Context(part, ReplayDriver(part, self))), 0.0)
        except BaseException as error:
            return _raised(part, error)
        finally:
            leave_line(token)

    def _answer(self, effect: Effect) -> Answer:
        match effect:
            case AwaitBranch(branches):
                return _take(self._ended, branches)
            case Perform():
                self._flow.end(Stopped())
        return None


class AsyncReplayDriver(ReplayDriver):
    """For ``async def`` workflows."""

    def __init__(self, flow: Flow, around: ReplayDriver | None = None) -> None:
        super().__init__(flow, around)
        self.unawaited = Unawaited()

    async def __call__(self, decisions: Decisions[Any]) -> Any:
        answer: Answer = None
        try:
            while True:
                effect = decisions.send(answer)
                match effect:
                    case Enter(part, body):
                        answer = await self._aenter(part, body)
                    case Spawn(part, body):
                        self._ended.append(Ended(part, await self._aenter(part, body)))
                        answer = None
                    case _:
                        answer = self._answer(effect)
        except StopIteration as stop:
            return stop.value

    async def _aenter(self, part: Flow, body: Body) -> Performed:
        token = enter_line(part)
        try:
            value = body(AsyncContext(part, AsyncReplayDriver(part, self)))
            return Returned(await value if inspect.isawaitable(value) else value, 0.0)
        except BaseException as error:
            return _raised(part, error)
        finally:
            leave_line(token)


def _raised(part: Flow, error: BaseException) -> Raised:
    if isinstance(part, Probe):
        part.raised(error)
    return Raised(error, 0.0)


def _take(ended: list[Ended], branches: Sequence[Flow]) -> Ended:
    first = next(one for one in ended if one.branch in branches)
    ended.remove(first)
    return first
