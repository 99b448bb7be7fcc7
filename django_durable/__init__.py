"""Durable background workflows for Django: every run finishes, whatever dies.

Importing this package works before Django's apps are ready; what needs the models is loaded at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .client.model_ref import ModelRef
from .client.tagging import tag_for
from .core.async_context import AsyncContext
from .core.context import Context
from .core.flow.stepping import current_step
from .core.kinds.events import Event
from .core.kinds.loops import Break, Continue
from .core.kinds.polls import PENDING, Pending
from .core.kinds.tries import Outcome
from .core.payloads.durable_type import durable_type
from .core.retries import Retry
from .core.schedules.cron import Cron
from .exceptions import NonRetriableError, RetryLater, RollbackError
from .workflows import Workflow, durable_workflow, get_workflow

if TYPE_CHECKING:
    from uuid import UUID

    from .client.handle import RunHandle

__version__ = "0.2.0.dev0"
__all__ = [
    "PENDING",
    "AsyncContext",
    "Break",
    "Context",
    "Continue",
    "Cron",
    "Event",
    "ModelRef",
    "NonRetriableError",
    "Outcome",
    "Pending",
    "Retry",
    "RetryLater",
    "RollbackError",
    "Workflow",
    "cancel_runs",
    "current_step",
    "durable_type",
    "durable_workflow",
    "enqueue",
    "fork_runs",
    "get_run",
    "get_workflow",
    "hold_queue",
    "hold_workflow",
    "pause_runs",
    "release_queue",
    "release_workflow",
    "rerun_runs",
    "resume_runs",
    "tag_for",
]


def enqueue(workflow: str, /, **kwargs: Any) -> RunHandle[Any]:
    """Start a run of the workflow called ``workflow``. Raises UnknownWorkflow, InvalidInput, PayloadError."""
    return get_workflow(workflow).enqueue(**kwargs)


def get_run(run_id: UUID | str) -> RunHandle[Any]:
    """The handle of a run. Raises RunNotFound."""
    from .client.handle import get_run as find

    return find(run_id)


def cancel_runs(runs: Any, *, reason: str = "", actor: str = "") -> int:
    """Cancel these runs (ids, runs or a queryset) and their attached descendants; how many were live."""
    from .client import verbs

    return verbs.cancel_runs(runs, reason=reason, actor=actor)


def pause_runs(runs: Any, *, reason: str = "", actor: str = "") -> int:
    """Put these runs aside until somebody resumes them; how many that concerned. Their children go on."""
    from .client import verbs

    return verbs.pause_runs(runs, reason=reason, actor=actor)


def rerun_runs(runs: Any, *, reason: str = "", actor: str = "") -> list[RunHandle[Any]]:
    """Start each of these runs anew, with the same input and options, as runs of their own: the new ones."""
    from .client import verbs
    from .client.handle import RunHandle

    return [RunHandle(run_id) for run_id in verbs.rerun_runs(runs, reason=reason, actor=actor)]


def fork_runs(runs: Any, from_step: str, *, reason: str = "", actor: str = "") -> list[RunHandle[Any]]:
    """Start a new run for each of these, which has done what that one had before ``from_step``: the new ones. A run
    that never came to that step is passed by."""
    from .client import verbs
    from .client.handle import RunHandle

    return [RunHandle(run_id) for run_id in verbs.fork_runs(runs, from_step, reason=reason, actor=actor)]


def resume_runs(runs: Any, *, reason: str = "", actor: str = "") -> int:
    """Let these paused, blocked, failed or cancelled runs go on; how many of them could."""
    from .client import verbs

    return verbs.resume_runs(runs, reason=reason, actor=actor)


def hold_queue(queue: str, *, reason: str = "", actor: str = "") -> bool:
    """Let no run of this queue be claimed until it is released; whether it was not held before. What is being worked on
    goes on to its next suspension. Workers hear of it with their next heartbeat."""
    from .client import holding

    return holding.hold_queue(queue, reason=reason, actor=actor)


def release_queue(queue: str, *, reason: str = "", actor: str = "") -> bool:
    """Let runs of this queue be claimed again, from each worker's next heartbeat on; whether it was held."""
    from .client import holding

    return holding.release_queue(queue, reason=reason, actor=actor)


def hold_workflow(workflow: Any, *, reason: str = "", actor: str = "") -> bool:
    """As ``hold_queue``, for the runs of a workflow (itself, or a name of it), whatever name they were started under.
    Raises UnknownWorkflow where neither this process nor a live worker knows it."""
    from .client import holding

    return holding.hold_workflow(workflow, reason=reason, actor=actor)


def release_workflow(workflow: Any, *, reason: str = "", actor: str = "") -> bool:
    """As ``release_queue``, for a workflow."""
    from .client import holding

    return holding.release_workflow(workflow, reason=reason, actor=actor)
