"""``manage.py durable_cancel``: asks runs to stop."""

from __future__ import annotations

from typing import Any

from ...client.handle import RunHandle
from ...core.journal.states import TERMINAL, Status
from ._runs import RunsCommand
from ._shell import actor


class Command(RunsCommand):
    help = (
        "Cancels runs with their attached children: at once where nothing of them has started, "
        "at the next step where they are running. Runs that are over stay as they are."
    )
    done = "cancelled"

    def act(self, handle: RunHandle[Any], reason: str) -> str:
        before = handle.status
        handle.cancel(reason, actor=actor())
        if before in TERMINAL:
            return f"{handle.id} is over already: {before}"
        return f"{handle.id} {'cancelled' if handle.status == Status.CANCELLED else 'is asked to stop'}"
