"""What is kept of a released version, as the tests read it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.fixtures import FIXTURES
from tests.fixtures.rows import Rows

V0_1 = FIXTURES / "v0_1"


@dataclass(frozen=True)
class Journal:
    """Runs as the released version left them; ``run`` is the id of the one that it is about."""

    name: str
    shows: str
    run: UUID
    exported_at: datetime
    rows: Rows

    def column(self, table: str, name: str) -> list[Any]:
        return [row[name] for row in self.rows.get(f"django_durable_{table}", [])]

    @property
    def runs(self) -> list[UUID]:
        return [UUID(run_id) for run_id in self.column("run", "id")]


def read_journal(folder: Path, name: str) -> Journal:
    stored = json.loads(folder.joinpath("journals", f"{name}.json").read_text())
    at = datetime.fromisoformat(stored["exported_at"])
    return Journal(name, stored["shows"], UUID(stored["run"]), at, stored["rows"])


def journals(folder: Path) -> Iterator[Journal]:
    """All of them, in the order of their names."""
    for path in sorted(folder.joinpath("journals").iterdir()):
        yield read_journal(folder, path.stem)
