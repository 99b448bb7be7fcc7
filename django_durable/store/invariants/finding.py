"""What a look at an invariant has come to."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID


@dataclass(slots=True, frozen=True)
class Violation:
    """What breaks an invariant, and how: a run (or what is left of one); None where it is about no run."""

    invariant: str
    run_id: UUID | None
    problem: str


@dataclass(slots=True)
class Finding:
    """``rows`` were looked at, in ``seconds``. ``not_known``: why not all of them could be. ``not_looked_at``: why
    nobody had to."""

    id: str
    text: str
    violations: list[Violation] = field(default_factory=list)
    rows: int = 0
    seconds: float = 0.0
    not_known: str = ""
    not_looked_at: str = ""

    @property
    def holds(self) -> bool | None:
        """None: nobody knows."""
        if self.violations:
            return False
        return None if self.not_known or self.not_looked_at else True
