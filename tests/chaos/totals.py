"""What the rounds of a run of chaos come to, as sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.chaos.allowance import WANTED_SECONDS, Round, Timed
from tests.chaos.checker import violations
from tests.chaos.evidence import Violation
from tests.chaos.handovers import handovers
from tests.chaos.recovery import Recovery, hits, percentile, recoveries
from tests.chaos.repetitions import repetitions, starved
from tests.chaos.story import Story
from tests.chaos.unknown import count_not_undone
from tests.chaos.zombies import zombies


@dataclass(slots=True)
class Totals:
    """Sums over the rounds. ``seconds``: as long as the nemesis was about; ``old``: how many of the workers are of the
    released version."""

    seed: str
    old: int = 0
    seconds: float = 0.0
    runs: int = 0
    acknowledged: int = 0
    unknown: int = 0
    ended: Counter[str] = field(default_factory=Counter)
    cancelled_children: int = 0
    claims: int = 0
    steps: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    hits: Counter[str] = field(default_factory=Counter)
    poisoned: int = 0
    starved: int = 0
    repetitions: Counter[str] = field(default_factory=Counter)
    zombies: int = 0
    contested: int = 0
    handovers: Counter[str] = field(default_factory=Counter)
    not_undone: int = 0
    fires: int = 0
    rounds: list[Round] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)

    def add(self, story: Story, seconds: float, start: float, stuck: Sequence[str]) -> None:
        """The totals of a round that is over. ``start``: what its workers took to begin; ``stuck``: what did not come
        to its end afterwards, in words."""
        self.seconds += seconds
        self.runs += len(story.runs)
        known = _known(story)
        self.acknowledged += known["ok"]
        self.unknown += known["unknown"]
        self.ended.update(run.status for run in story.runs.values())
        self.cancelled_children += sum(run.status == "cancelled" and bool(run.parent) for run in story.runs.values())
        self.claims += sum(change.is_claim for change in story.evidence.changes)
        self.steps += len(story.executions)
        self.faults.update(fault.kind for fault in story.evidence.faults)
        self.hits.update(fault.kind for fault in hits(story))
        self.poisoned += sum(fault.kind == "poison" for fault in story.faults)
        self.starved += len(starved(story))
        self.repetitions += repetitions(story)
        contested = [is_contested for _, is_contested in zombies(story)]
        self.zombies += len(contested)
        self.contested += sum(contested)
        self.handovers += handovers(story)
        self.not_undone += count_not_undone(story)
        self.rounds.append(Round(start, recoveries(story)))
        self.violations += violations(story)
        self.violations += [Violation("liveness", "", text) for text in stuck]

    @property
    def minutes(self) -> float:
        return self.seconds / 60

    @property
    def recoveries(self) -> list[Recovery]:
        return [recovery for one in self.rounds for recovery in one.recoveries]

    @property
    def seen(self) -> list[float]:
        return [recovery.seconds for recovery in self.recoveries]

    @property
    def clear(self) -> list[float]:
        return [timed.seconds for timed in self._timed]

    @property
    def _timed(self) -> list[Timed]:
        return [timed for one in self.rounds for timed in one.clear]

    @property
    def clear_p99(self) -> float:
        return percentile(self.clear, 0.99)

    @property
    def slow(self) -> Timed:
        """The clear recovery that 99 of 100 do not exceed, each beside what its own round allows."""
        timed = sorted(self._timed, key=lambda timed: timed.excess)
        return timed[min(int(len(timed) * 0.99), len(timed) - 1)] if timed else Timed(0.0, WANTED_SECONDS)

    @property
    def beyond_wanted(self) -> int:
        """How many of the clear recoveries took longer than is wanted, whatever is allowed here."""
        return sum(seconds > WANTED_SECONDS for seconds in self.clear)

    @property
    def beyond_allowed(self) -> int:
        """How many of them took longer than their own round allows."""
        return sum(timed.excess > 0 for timed in self._timed)

    @property
    def hit_again(self) -> int:
        """How many recoveries are none of the clear ones."""
        return len(self.recoveries) - len(self.clear)

    def count(self, rules: tuple[str, ...]) -> int:
        return sum(violation.rule in rules for violation in self.violations)


def _known(story: Story) -> Counter[str]:
    """How many runs were acknowledged, and of how many nobody has heard."""
    known: dict[str, str] = {}
    for said in story.evidence.said:
        if said.verb == "enqueue":
            for tag in said.tags:
                if known.get(tag) != "ok":
                    known[tag] = "unknown" if said.moment == "invoke" else said.moment
    return Counter(known.values())
