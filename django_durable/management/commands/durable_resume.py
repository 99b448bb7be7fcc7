"""``manage.py durable_resume``: lets runs go on from their journals."""

from __future__ import annotations

from typing import Any

from ...client.handle import RunHandle
from ._runs import RunsCommand
from ._shell import actor


class Command(RunsCommand):
    help = (
        "Resumes paused, blocked, failed and cancelled runs: they go on from their journals, "
        "with the attempts of exhausted steps reset."
    )
    done = "resumed"

    def act(self, handle: RunHandle[Any], reason: str) -> str:
        handle.resume(reason, actor=actor())
        return f"{handle.id} resumed"
