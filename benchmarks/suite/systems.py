"""Who takes part: a folder of ``benchmarks/systems`` each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "systems"
OWN, FLOOR = "django_durable", "limits"


@dataclass(frozen=True)
class Participant:
    """``is_own``: runs in the project's own environment, from this checkout. ``is_durable``: survives a power cut."""

    name: str
    is_durable: bool = True
    is_own: bool = False

    @property
    def folder(self) -> Path:
        return FOLDER / ("own" if self.is_own else "peers") / self.name

    @property
    def script(self) -> Path:
        return self.folder / "system.py"


PARTICIPANTS = (
    Participant(FLOOR, is_own=True),
    Participant(OWN, is_own=True),
    Participant("dbos"),
    Participant("absurd"),
    Participant("restate"),
    Participant("procrastinate"),
    Participant("django_tasks"),
    Participant("celery", is_durable=False),
    Participant("dramatiq", is_durable=False),
)
"""``FLOOR`` is no engine: what Django and psycopg alone can do with the same database."""


def participants(names: list[str] | None = None) -> list[Participant]:
    """Those named, or all. Raises ValueError for a name that nobody has."""
    known = {participant.name: participant for participant in PARTICIPANTS}
    if unknown := sorted(set(names or ()) - set(known)):
        raise ValueError(f"no such system: {', '.join(unknown)}; there are {', '.join(known)}")
    return [participant for participant in PARTICIPANTS if names is None or participant.name in names]
