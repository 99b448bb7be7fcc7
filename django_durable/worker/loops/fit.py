"""Runs whose code is not there, and runs whose code has come back."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from django.db import close_old_connections

from ...conf import durable_settings
from ...core.journal.states import BlockReason
from ...queues.base import Queue
from ...store.database import Database
from ...store.fitting import block_unknown, unblock_known
from ...store.transitions import as_ready
from ...store.workers import known_workflows
from ...workflows.registry import workflows
from ..announcing import maintained

logger = logging.getLogger("django_durable.worker")

BATCH = 1000
GRACE_LEASES = 2
"""A name counts as unknown when no worker that knows it has beaten for so many leases, and its run has waited as long:
a deploy's gap is not enough."""


class Fit:
    """Blocks runs of workflows that nobody knows, and takes up blocked ones that this code may fit."""

    def __init__(self, queue: Queue, queues: Sequence[str]) -> None:
        # Django's own connection of this thread: these rare transitions are written with the ORM.
        self._db = Database()
        self._queue = queue
        self._queues = queues

    @property
    def interval(self) -> float:
        return durable_settings().LEASE_SECONDS

    def tick(self) -> int:
        close_old_connections()
        known = workflows()
        fitting = unblock_known(self._db, {name: one.fingerprint for name, one in known.items()}, self._queues)
        self._queue.push(as_ready(fitting))
        patience = GRACE_LEASES * durable_settings().LEASE_SECONDS
        announced = known_workflows(self._db, patience)
        if announced:
            unknown = block_unknown(self._db, sorted(announced | set(known)), BATCH, patience=patience)
            self._queue.push(unknown.woken)
            maintained((run.pk, run.workflow, run.status) for run in unknown.runs)
            for run in unknown.runs:
                reason = BlockReason.UNKNOWN_WORKFLOW
                logger.error("%s run=%s workflow=%s reason=%s", run.status, run.pk, run.workflow, reason)
        return len(fitting)
