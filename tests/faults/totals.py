"""What a backend's process tells the command that has started it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self


@dataclass
class Totals:
    """``points`` by scenario; ``failed`` are cases, or a process that ended before it could tell."""

    points: dict[str, int] = field(default_factory=dict)
    cases: int = 0
    failed: int = 0

    @classmethod
    def read(cls, file: Path, status: int) -> Self:
        """Those of the process that has written ``file``, if it has, and ended with ``status``."""
        totals = cls(**json.loads(file.read_text())) if file.exists() else cls()
        if status and not totals.failed:
            totals.failed = 1
        return totals

    def write(self, file: Path) -> None:
        file.write_text(json.dumps(asdict(self)))
