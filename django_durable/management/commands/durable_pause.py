"""``manage.py durable_pause``: puts runs aside."""

from __future__ import annotations

from typing import Any

from ...client.handle import RunHandle
from ...core.journal.states import Status
from ._runs import RunsCommand
from ._shell import actor


class Command(RunsCommand):
    help = (
        "Pauses runs until they are resumed: at once where nothing of them is running, else when the step under way is "
        "over. Their times and deadlines go on, and so do their children."
    )
    done = "paused"

    def act(self, handle: RunHandle[Any], reason: str) -> str:
        handle.pause(reason, actor=actor())
        return f"{handle.id} {'paused' if handle.status == Status.PAUSED else 'is asked to pause'}"
