"""Starting runs in the caller's transaction; the queue hears of them after the commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from ..core.journal import NewRun
from ..core.names import NAME_MAX
from ..core.stepping import running_step
from ..exceptions import IdempotencyConflict
from ..store.database import Database
from ..store.keys import hash_of, take_key
from ..store.starting import start_runs
from .announcing import announce_enqueued
from .pushing import push_after_commit

STEP_KEY_SECONDS = 30 * 86400.0
"""How long a run that a step has started is found again by a retry of that step."""


class Named(Protocol):
    """A workflow, as much of it as starting needs."""

    @property
    def name(self) -> str: ...


@dataclass(slots=True, frozen=True)
class KeyRequest:
    """An idempotency key, how long it stands (seconds), and what to do if it is taken: ``return`` or ``reject``."""

    key: str
    ttl: float
    on_conflict: str = "return"


def start(workflow: Named, runs: Sequence[NewRun], key: KeyRequest | None) -> list[UUID]:
    """Store the runs, or find the one that the key started before; their ids. Raises IdempotencyConflict.

    Inside a step every run gets a key from the run, the step and its count, so that a retried step starts
    nothing twice.
    """
    db = Database()
    if key is None and running_step() is None:
        _store(db, workflow, runs)
        return [run.id for run in runs]
    with db.transaction():
        return [_start_once(db, workflow, run, key or _step_key()) for run in runs]


def _step_key() -> KeyRequest:
    step = running_step()
    assert step is not None  # noqa: S101  (for the type checker: start() asked)
    return KeyRequest(step.next_start_key(), STEP_KEY_SECONDS)


def _start_once(db: Database, workflow: Named, run: NewRun, request: KeyRequest) -> UUID:
    key_hash, input_hash = hash_of(request.key), hash_of(run.input)
    # The hash is what counts; the column only shows the key, and one that a step made may be longer than it.
    taken = take_key(db, workflow.name, request.key[:NAME_MAX], key_hash, run.id, input_hash, request.ttl)
    if taken is None:
        _store(db, workflow, [run])
        return run.id
    if taken.input_hash != input_hash:
        raise IdempotencyConflict(workflow.name, request.key, taken.run_id, "it was given with another input")
    if request.on_conflict == "reject":
        raise IdempotencyConflict(workflow.name, request.key, taken.run_id, "it is taken")
    return taken.run_id


def _store(db: Database, workflow: Named, runs: Sequence[NewRun]) -> None:
    if not runs:
        return
    ready = start_runs(db, runs)
    push_after_commit(db, ready)
    announce_enqueued(db, workflow, runs)
