"""Django signals for what a commit has made true. Sent after it, off its path, to whoever listens."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any
from uuid import UUID

from django.dispatch import Signal

from .. import signals
from ..core.journal.journal import Entry, Write
from ..core.journal.states import EntryStatus, Kind, Status
from ..core.payloads.codec import decode
from ..core.payloads.surviving import survive
from ..core.registry import find
from ..store.claiming import Claim
from ..store.receipts import Receipt
from ..workflows.definition import Workflow

logger = logging.getLogger("django_durable.worker")

OF_STATUS: dict[str, Signal] = {
    Status.WAITING: signals.run_waiting,
    Status.SUCCEEDED: signals.run_succeeded,
    Status.FAILED: signals.run_failed,
    Status.CANCELLED: signals.run_cancelled,
    Status.BLOCKED: signals.run_blocked,
}
OF_STEP: dict[str, Signal] = {
    EntryStatus.SUCCEEDED: signals.step_succeeded,
    EntryStatus.RETRYING: signals.step_retrying,
    EntryStatus.FAILED: signals.step_failed,
}
HEARD = (*OF_STATUS.values(), *OF_STEP.values(), signals.run_enqueued)
Send = Callable[[], object]


def is_heard() -> bool:
    """Whether anybody listens to any of the signals that a commit may cause: as a rule nobody does."""
    for signal in HEARD:  # noqa: SIM110  (asked for every commit: half the cost of any() of a generator)
        if signal.receivers:
            return True
    return False


def is_start_heard() -> bool:
    """The same of the beginning of a run."""
    return bool(signals.run_started.receivers)


def started(workflow: Workflow[Any, Any], claim: Claim) -> Iterator[Send]:
    """What to send when a claim has begun: only the first one is a run's start."""
    if claim.claims == 1:
        yield from _sends(signals.run_started, workflow, run_id=claim.run_id, attempt=claim.attempt)


def committed(workflow: Workflow[Any, Any], claim: Claim, write: Write, receipt: Receipt) -> Iterator[Send]:
    """What to send after ``write`` has become durable."""
    for entry in write.entries.values():
        if entry.kind == Kind.STEP:
            yield from _of_step(workflow, claim, entry)
    for child in write.children:
        yield from _sends(signals.run_enqueued, find(child.workflow), run_id=child.id)
    signal = OF_STATUS.get(receipt.status or "")
    if signal is not None:
        yield from _sends(signal, workflow, run_id=claim.run_id, attempt=claim.attempt)


def maintained(runs: Iterable[tuple[UUID, str, str]]) -> None:
    """Send, here and now, what maintenance did to runs (id, workflow name, new status): some it blocked or ended."""
    for run_id, workflow, status in runs:
        signal = OF_STATUS.get(status)
        if signal is not None and signal.receivers:
            try:
                signal.send_robust(sender=find(workflow), run_id=run_id)
            except BaseException as error:
                # Robust against Exceptions only; what else maintenance has to do is not to hang on a receiver.
                survive(error, logger, "a receiver of what became of run=%s failed", run_id)


def _of_step(workflow: Workflow[Any, Any], claim: Claim, entry: Entry) -> Iterator[Send]:
    signal = OF_STEP.get(entry.status)
    if signal is not None and signal.receivers:
        error = decode(entry.error) if entry.error else None
        facts = {"path": entry.path, "attempt": entry.attempts, "error": error, "delay": entry.wake_after}
        if entry.status != EntryStatus.SUCCEEDED:
            facts["max_attempts"] = entry.max_attempts
        yield from _sends(signal, workflow, run_id=claim.run_id, **facts)


def _sends(signal: Signal, workflow: object, **facts: Any) -> Iterator[Send]:
    # The plain list first: asking for live receivers takes a lock, and as a rule nobody listens.
    if signal.receivers and signal.has_listeners(workflow):
        yield partial(signal.send_robust, sender=workflow, **facts)
