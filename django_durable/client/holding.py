"""Holding a queue or a workflow: no run of it is claimed until it is released."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import Q

from ..core.names import check_name
from ..core.registry import find, names_of
from ..exceptions import UnknownWorkflow
from ..models import Hold, Run
from ..store import holding
from ..store.auditing import Verb
from ..store.database import Database
from ..store.holding import Held
from ..store.scheduling import database_now
from .listing import live_workers


def hold_queue(queue: str, *, reason: str = "", actor: str = "") -> bool:
    """Let no run of this queue be claimed until it is released; whether it was not held before.

    Runs that are being worked on go on to their next suspension. Workers hear of it with their next heartbeat. Raises
    InvalidName for what cannot be a name.
    """
    return holding.hold(Database(), Hold.QUEUE, check_name("queue", queue), Verb(actor, reason))


def release_queue(queue: str, *, reason: str = "", actor: str = "") -> bool:
    """Let runs of this queue be claimed again, from each worker's next heartbeat on; whether it was held."""
    return holding.release(Database(), Hold.QUEUE, queue, Verb(actor, reason))


def hold_workflow(workflow: Any, *, reason: str = "", actor: str = "") -> bool:
    """As ``hold_queue``, for the runs of a workflow under each name that it has or had. By itself or by a name.

    Raises UnknownWorkflow for a name that neither this process nor any live worker knows.
    """
    name = _name_of(workflow)
    if find(name) is None and not _is_known_to_workers(name):
        raise UnknownWorkflow(name, [])
    return holding.hold(Database(), Hold.WORKFLOW, name, Verb(actor, reason))


def release_workflow(workflow: Any, *, reason: str = "", actor: str = "") -> bool:
    """As ``release_queue``, for a workflow."""
    db, by = Database(), Verb(actor, reason)
    # It may have been held before it got its name, or by a process that knows it by an old one.
    names = names_of(_name_of(workflow))
    released = [holding.release(db, Hold.WORKFLOW, name, by) for name in names]
    return any(released)


def holds() -> list[Hold]:
    """All that is held, in order."""
    return list(Hold.objects.using(Database().alias).order_by("kind", "name"))


def held_by(found: Iterable[Hold]) -> Held:
    """What these hold together, workflows under each of their names."""
    return holding.held_of((hold.kind, hold.name) for hold in found)


def hold_of(run: Run) -> Hold | None:
    """What keeps this run from being claimed: the hold of its queue, else that of its workflow."""
    of_workflow = Q(kind=Hold.WORKFLOW, name__in=names_of(run.workflow))
    found = Hold.objects.using(Database().alias).filter(Q(kind=Hold.QUEUE, name=run.queue) | of_workflow)
    return found.order_by("kind").first()


def _name_of(workflow: Any) -> str:
    return names_of(str(getattr(workflow, "name", workflow)))[0]


def _is_known_to_workers(name: str) -> bool:
    return any(name in worker.workflows for worker in live_workers(database_now(Database())))
