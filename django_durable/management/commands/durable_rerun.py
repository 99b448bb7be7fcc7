"""``manage.py durable_rerun``: starts runs anew, as runs of their own."""

from __future__ import annotations

from typing import Any

from ...client.handle import RunHandle
from ._runs import RunsCommand
from ._shell import actor


class Command(RunsCommand):
    help = "Starts a new run for each of these, with the same input and options, and prints its id."
    done = "run again"
    requires_system_checks = "__all__"

    def act(self, handle: RunHandle[Any], reason: str) -> str:
        return str(handle.rerun(reason, actor=actor()).id)
