"""A workflow with options for the runs that it starts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

from asgiref.sync import sync_to_async

from ..core.flow.run_info import RunInfo
from ..core.journal.journal import NewRun
from .definition import P, R, Workflow
from .options import StartOptions

if TYPE_CHECKING:
    from ..client.handle import RunHandle


@dataclass(frozen=True, slots=True)
class Using(Generic[P, R]):
    """What ``workflow.using(...)`` returns: starts runs as the workflow does, with ``options``."""

    workflow: Workflow[P, R]
    options: StartOptions

    @property
    def child_key(self) -> object:
        return self.options.key

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> RunHandle[R]:
        """As ``Workflow.enqueue``. Raises IdempotencyConflict as well."""
        return self.workflow._start(self.options, [(args, kwargs)])[0]

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> RunHandle[R]:
        """As ``enqueue``."""
        return await sync_to_async(self.enqueue)(*args, **kwargs)

    def enqueue_many(self, inputs: Iterable[dict[str, Any]]) -> list[RunHandle[R]]:
        """As ``Workflow.enqueue_many``; an idempotency key makes no sense for many and is refused."""
        if self.options.idempotency_key is not None:
            raise TypeError("enqueue_many takes no idempotency_key: it would be the same for every run.")
        return self.workflow._start(self.options, [((), dict(given)) for given in inputs])

    def new_child(self, parent: RunInfo, path: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NewRun:
        return self.workflow.child(self.options, parent, path, args, kwargs)
