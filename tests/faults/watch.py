"""Watches the bodies of steps, in the rescue and, for the victim that asks it to, beside it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

from django_durable.client.verbs import cancel_runs
from django_durable.core.flow.stepping import CurrentStep
from django_durable.models import Run
from tests.faults.rows import Rows
from tests.faults.witness import Witness


class Watch:
    """Notes what begins and ends, and cancels where the scenario says so; ``watch`` before each case."""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness
        self._outside = ThreadPoolExecutor(1)
        """With a connection of Django's of its own: steps of this process may be in a transaction of theirs."""
        self._rows: Rows
        self._cancels_in = ""

    def watch(self, rows: Rows, cancels_in: str) -> None:
        """``cancels_in``: in the first body of this path the outside cancels the run."""
        self._rows = rows
        self._cancels_in = cancels_in

    def begins(self, *step: Any) -> None:
        """A body begins, here (a ``CurrentStep``) or in the victim (its run, path, attempt and token)."""
        run_id, path, attempt, token = _facts_of(step)
        settled = self._rows.has_settled(run_id, path)
        self._witness.note("begin", run=run_id, path=path, attempt=attempt, token=token, settled=settled)
        if path == self._cancels_in:
            self._cancels_in = ""
            self._outside.submit(self._cancel_root, run_id).result()

    def ends(self, *step: Any) -> None:
        """A body ends, here (with its value) or in the victim (its run, path, token and value)."""
        if isinstance(step[0], CurrentStep):
            current, value = step
            step = (current.run_id, current.path, current.lease.token.hex, value)
        run_id, path, token, value = step
        self._witness.note("end", run=run_id, path=path, token=token, value=value)

    def cancel(self, run_id: UUID) -> None:
        if cancel_runs([run_id]):
            self._witness.note("cancelled", run=run_id)

    def _cancel_root(self, run_id: UUID) -> None:
        self.cancel(Run.objects.values_list("root_id", flat=True).get(pk=run_id))


def _facts_of(step: tuple[Any, ...]) -> tuple[UUID, str, int, str]:
    if isinstance(step[0], CurrentStep):
        current = step[0]
        return current.run_id, current.path, current.attempt, current.lease.token.hex
    return step
