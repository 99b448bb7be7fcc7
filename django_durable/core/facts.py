"""What both faces of ``ctx`` have and nobody has to wait for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from ..exceptions import RunCancelled
from .flow import notes
from .flow.effects import Decisions
from .flow.flow import Flow
from .flow.stepping import stable_key
from .kinds import children, gates, maps, values
from .kinds.children import Startable


class Facts:
    """The part of ``ctx`` that never waits: who the run is, values that a replay gives again, notes."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow

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
        """Whether the run has been asked to stop. Not while it compensates: it goes the way that it has gone."""
        return self._flow.lease.cancel_requested and self._flow.heeds_cancel and not self._flow.is_stopped

    def raise_if_cancelled(self) -> None:
        """Raise RunCancelled where the run has been asked to stop."""
        if self.cancelled:
            raise RunCancelled(self.run_id)

    def now(self) -> datetime:
        """The time when this call was first reached (aware, UTC, the database's clock)."""
        return values.now(self._flow)

    def uuid4(self) -> UUID:
        """A UUID that every replay draws again."""
        return values.uuid4(self._flow)

    def random(self) -> float:
        """A float in [0, 1) that every replay draws again."""
        return values.random(self._flow)

    def version(self, name: str, latest: int, *, key: object = None) -> int:
        """The version of the code from here on that this run goes by: ``latest``, or 1 for a run that was past it."""
        return gates.version(self._flow, self._path(name, key), latest)

    def removed(self, name: str, kind: str = "step") -> None:
        """Say that the code no longer has the entry ``name``: a run that has it journaled goes on without it."""
        gates.removed(self._flow, name, kind)

    def idempotency_key(self, name: str) -> str:
        """32 hex digits for outside systems: the same in every attempt and replay of this run."""
        return stable_key(self.run_id, self._flow.scope, name)

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Tell how far the run has come; stored with its next durable write."""
        notes.progress(self._flow, done, total, message)

    def annotate(self, /, **facts: Any) -> None:
        """Note these about the run, for people; stored with its next durable write. The last value of a name stands."""
        notes.annotate(self._flow, facts)

    @cached_property
    def log(self) -> notes.RunLog:
        """A logger that is silent under replay; what it says is stored with the run's next durable write."""
        return notes.RunLog(self._flow)

    def _path(self, name: str, key: object = None) -> str:
        return self._flow.claim(name, key)

    def _map(
        self, path: str, work: Callable[[Any], Any] | Startable, items: Iterable[Any], max_parallel: int | None
    ) -> Decisions[list[Any]]:
        # Before the call is under way: the items may come from a generator that uses ctx.
        given = list(items)
        if isinstance(work, Startable):
            if work.child_key is not None:
                raise TypeError(f"Map {path!r} tells its children apart by their numbers: leave using(key=…) out.")
            makes = [self._make_child(work, (item,), {}) for item in given]
            return maps.map_children(self._flow, path, given, makes, max_parallel)
        if not callable(work):
            raise TypeError(f"Map {path!r} takes a function or a workflow, not {work!r}.")
        return maps.map_steps(self._flow, path, work, given, max_parallel)

    def _child(
        self, call: str, workflow: Startable, args: tuple[Any, ...], kw: dict[str, Any]
    ) -> tuple[object, children.MakeRun]:
        """The ``key`` of the child, and what makes it. Raises TypeError for what is no workflow."""
        given: Any = workflow
        if not isinstance(given, Startable):
            raise TypeError(
                f"{call} takes what @durable_workflow makes of a function, or its using(…), not {given!r}. "
                "get_workflow(name) finds a workflow by its name."
            )
        return workflow.child_key, self._make_child(workflow, args, kw)

    def _make_child(self, workflow: Startable, args: tuple[Any, ...], kw: dict[str, Any]) -> children.MakeRun:
        return lambda path: workflow.new_child(self._flow.run, path, args, kw)
