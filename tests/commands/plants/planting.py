"""What a plant is: it puts one violation into the tables, past the constraints where one forbids it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

from tests.commands.checking import a_run

MINUTE = timedelta(minutes=1)
MAX_BYTES = 1_000
"""MAX_PAYLOAD_BYTES where plants are put."""
Planted = tuple[UUID | None, str]
"""The run that breaks the invariant, if it is about one, and how; what ends with a colon is the beginning of that."""
Plant = Callable[[], Planted]


def counted(problem: str, **columns: Any) -> Plant:
    def plant() -> Planted:
        return a_run(**{"status": "queued", **columns}).pk, problem

    return plant
