"""Starting runs in the caller's transaction; the queue hears of them after the commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from ..conf import durable_settings
from ..core.flow.stepping import running_step
from ..core.journal.journal import NewRun
from ..core.names import NAME_MAX
from ..exceptions import IdempotencyConflict
from ..models import IdempotencyKey
from ..store.database import Database, database
from ..store.keys import free_key, give_back, hand_over, hash_of, take_key
from ..store.meeting import lock_starts, start_or_meet
from .announcing import announce_enqueued
from .pushing import push_after_commit
from .verbs import cancel_runs, tell_cancelled

STEP_KEY_SECONDS = 30 * 86400.0
"""How long a run that a step has started is found again by a retry of that step."""


class Named(Protocol):
    """A workflow, as much of it as starting needs."""

    @property
    def name(self) -> str: ...
    @property
    def aliases(self) -> tuple[str, ...]: ...


@dataclass(slots=True, frozen=True)
class KeyRequest:
    """An idempotency key, how long it stands (seconds), and what to do if it is taken: ``return``, ``reject`` or
    ``replace``."""

    key: str
    ttl: float
    on_conflict: str = "return"


def start(
    workflow: Named, runs: Sequence[NewRun], key: KeyRequest | None, *, within: set[UUID] | None = None
) -> list[UUID]:
    """Store the runs, or find the one that the key started before, or that ``debounce`` or ``singleton`` give instead;
    their ids. Raises IdempotencyConflict, and RunLocked where one that is to be cancelled or put off
    is held.

    Inside a step every run gets a key from the run, the step and its count, so that a retried step starts
    nothing twice. ``within``: for who has taken the start's key already, as for ``start_or_meet``.
    """
    db = database(durable_settings().DATABASE)
    if key is None and running_step() is None:
        return _store(db, workflow, runs, within)
    with db.read_committed():
        # All at once: the runs are started one by one, in the order in which they were given.
        within = lock_starts(db, runs) if within is None else within
        return [_start_once(db, workflow, run, key or _step_key(), within) for run in runs]


def _step_key() -> KeyRequest:
    step = running_step()
    assert step is not None  # noqa: S101  (for the type checker: start() asked)
    return KeyRequest(step.next_start_key(), STEP_KEY_SECONDS)


def _start_once(db: Database, workflow: Named, run: NewRun, request: KeyRequest, within: set[UUID] | None) -> UUID:
    input_hash = hash_of(run.input)
    taken = _take(db, workflow, run, request, input_hash)
    while taken is not None and request.on_conflict == "replace":
        _replace(db, taken, run)
        taken = _take(db, workflow, run, request, input_hash)
    if taken is None:
        [run_id] = _store(db, workflow, [run], within)
        if run_id != run.id:
            hand_over(db, run.id, run_id)
        return run_id
    if taken.input_hash != input_hash:
        raise IdempotencyConflict(workflow.name, request.key, taken.run_id, "it was given with another input")
    if request.on_conflict == "reject":
        raise IdempotencyConflict(workflow.name, request.key, taken.run_id, "it is taken")
    return taken.run_id


def _replace(db: Database, taken: IdempotencyKey, run: NewRun) -> None:
    """Free the key from its run, which is cancelled where it is live. Where another was faster, nothing happens: the
    key is somebody else's then, and the caller looks again."""
    if free_key(db, taken):
        cancel_runs([taken.run_id], reason=f"replaced by run {run.id} under the idempotency key {taken.key!r}")


def _take(db: Database, workflow: Named, run: NewRun, request: KeyRequest, input_hash: str) -> IdempotencyKey | None:
    """Take the key under every name of the workflow, or the row of who has it under one of them.

    Under all of them: while a rename is deployed, code of before asks under the old name only. In the order of the
    names, so that two who start at once do not wait for each other.
    """
    key_hash = hash_of(request.key)
    mine: list[str] = []
    for name in sorted({workflow.name, *workflow.aliases}):
        # The hash is what counts; the column only shows the key, and one that a step made may be longer than it.
        taken = take_key(db, name, request.key[:NAME_MAX], key_hash, run.id, input_hash, request.ttl)
        if taken is not None:
            give_back(db, mine, key_hash, run.id)
            return taken
        mine.append(name)
    return None


def _store(db: Database, workflow: Named, runs: Sequence[NewRun], within: set[UUID] | None = None) -> list[UUID]:
    started = start_or_meet(db, runs, within=within)
    push_after_commit(db, started.ready)
    announce_enqueued(db, workflow, started.new)
    if started.cancelled.count:
        tell_cancelled(db, started.cancelled)
    return started.run_ids
