"""One case: a scenario, an action, the number of the point; and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.faults.kinds import Action, Point


@dataclass(frozen=True)
class Case:
    """``k`` counts from 1; 0, with no action: the scenario untouched."""

    scenario: str
    action: Action | None = None
    k: int = 0


@dataclass
class Report:
    """``points`` are those that were passed: all of an untouched case, up to the fault's of another one."""

    case: Case
    points: list[Point] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    log: str = ""

    @property
    def label(self) -> str:
        """What stands at the fault's point."""
        return self.points[-1].label if self.points and self.case.k else ""

    def told(self, backend: str) -> str:
        """For people: what failed, where, and the command that repeats just it."""
        case = self.case
        lines = [
            f"FAILED {case.scenario} on {backend}: {case.action or 'untouched'} at point {case.k}: {self.label}",
            *(f"    {problem}" for problem in self.problems),
        ]
        if case.action is not None:
            again = f"--backend {backend} --scenario {case.scenario} --action {case.action} --point {case.k}"
            lines.append(f"    again: python -m tests.faults {again}")
        if self.log:
            lines.append("    its log ends with:")
            lines += [f"      {line}" for line in self.log.splitlines()[-15:]]
        return "\n".join(lines)
