"""The victim's end of the pipe to its lane."""

from __future__ import annotations

from multiprocessing.connection import Connection
from typing import Any

from django_durable.core import clock


class Control:
    """The line to the lane, and through it to the rescue."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def ask(self, verb: str, *arguments: Any) -> Any:
        """Have the rescue do it; its answer."""
        self._pipe.send((verb, arguments, clock.offset()))
        return self._pipe.recv()

    def tell(self, what: str, value: Any) -> None:
        """For the report; nobody answers."""
        self._pipe.send(("told", (what, value), clock.offset()))
