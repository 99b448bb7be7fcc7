"""What a run tells people while it works: progress and log lines."""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any

from .codec import encode
from .flow import Flow

logger = logging.getLogger("django_durable.workflow")


def progress(flow: Flow, done: float, total: float | None, message: str) -> None:
    """Note how far the run has come; stored with its next durable write, silent under replay."""
    flow.require_open("progress")
    if not flow.is_replaying:
        flow.pending.progress = encode({"done": done, "total": total, "message": str(message)[:500]})


class RunLog(logging.LoggerAdapter[logging.Logger]):
    """The run's logger: each record carries ``workflow`` and ``run``; what was logged once is not in a replay."""

    def __init__(self, flow: Flow) -> None:
        super().__init__(logger, {"workflow": flow.run.workflow, "run": str(flow.run.run_id)})
        self._flow = flow

    def isEnabledFor(self, level: int) -> bool:
        return not self._flow.is_replaying and super().isEnabledFor(level)

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(kwargs.get("extra") or {}), **(self.extra or {})}
        return msg, kwargs
