"""``@durable_workflow``, with or without parentheses, for ``def`` and ``async def``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from ..core.async_context import AsyncContext
from ..core.context import Context
from ..core.registry import register
from ..exceptions import WorkflowDefinitionError
from .definition import Workflow
from .options import WorkflowOptions

P = ParamSpec("P")
R = TypeVar("R")


class Decorate(Protocol):
    """What ``@durable_workflow(...)`` returns."""

    @overload
    def __call__(self, fn: Callable[Concatenate[AsyncContext, P], Awaitable[R]]) -> Workflow[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Context, P], R]) -> Workflow[P, R]: ...


@overload
def durable_workflow(fn: Callable[Concatenate[AsyncContext, P], Awaitable[R]], /) -> Workflow[P, R]: ...
@overload
def durable_workflow(fn: Callable[Concatenate[Context, P], R], /) -> Workflow[P, R]: ...
@overload
def durable_workflow(**options: Any) -> Decorate: ...
def durable_workflow(fn: Any = None, /, **options: Any) -> Any:
    """Make a function durable. Options: see ``WorkflowOptions``. Raises WorkflowDefinitionError at import."""
    try:
        checked = WorkflowOptions(**options)
    except TypeError as error:
        if isinstance(error, WorkflowDefinitionError):
            raise
        raise WorkflowDefinitionError(f"@durable_workflow: {_readable(error)}") from None

    def decorate(function: Callable[..., Any]) -> Workflow[Any, Any]:
        workflow: Workflow[Any, Any] = Workflow(function, checked)
        register(workflow)
        return workflow

    return decorate if fn is None else decorate(fn)


def _readable(error: TypeError) -> str:
    return str(error).replace("WorkflowOptions.__init__() got an unexpected keyword argument", "there is no option")
