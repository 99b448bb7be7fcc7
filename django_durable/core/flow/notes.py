"""What a run tells people while it works: progress, annotations and log lines.

Progress and annotations are stored with the run's next durable write. A replay says them again, and what it says before
an entry that it finds was stored with that one: so only what came after the last commit is written once more.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, MutableMapping
from math import isfinite
from typing import Any

from ..names import check_name
from ..payloads.codec import encode
from .flow import Flow

logger = logging.getLogger("django_durable.workflow")

NOTE_MAX_BYTES = 4096
"""Of one annotation's value as text."""


def progress(flow: Flow, done: float, total: float | None, message: str) -> None:
    """Note how far the run has come. Raises TypeError for what is no number, ValueError for one without a place."""
    flow.require_open("progress")
    for what, number in (("done", done), ("total", total)):
        if number is not None or what == "done":
            _check_number(what, number)
    text = encode({"done": done, "total": total, "message": str(message)[:500]})
    if not flow.is_looking:
        flow.pending.progress = text


def _check_number(what: str, number: object) -> None:
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise TypeError(f"{what} of progress() must be a number, not {number!r}.")
    if not isfinite(number):
        raise ValueError(f"{what} of progress() must be finite, not {number!r}.")


def annotate(flow: Flow, facts: Mapping[str, Any]) -> None:
    """Note these, name by name; all of them or none. Raises InvalidName, PayloadError."""
    flow.require_open("annotate")
    names = [check_name("annotation", name) for name in facts]
    texts = {name: encode(facts[name], limit=NOTE_MAX_BYTES, root=f"annotation {name!r}") for name in names}
    if not flow.is_looking:
        flow.pending.notes.update(texts)


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
