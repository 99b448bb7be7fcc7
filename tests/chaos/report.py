"""What a run of chaos comes to: its totals, whether they are good enough, and how they are shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from tests.chaos.checker import LOST, REPEATED, STALE, violations
from tests.chaos.evidence import Violation
from tests.chaos.handovers import TO_NEW, TO_OLD, handovers
from tests.chaos.recovery import Recovery, hits, percentile, recoveries
from tests.chaos.repetitions import repetitions, starved
from tests.chaos.story import TERMINAL, Story
from tests.chaos.unknown import count_not_undone
from tests.chaos.zombies import zombies
from tests.processes import FAST

RUNS_A_MINUTE = 2_000
FAULTS_A_MINUTE = 60
HITS_A_MINUTE = 20
HANDOVERS_A_MINUTE = 20
"""Of each direction, where workers of two releases work side by side."""


class Verdict(Enum):
    """Every goal holds; nothing is wrong, but too little was done or too late, so that it proves nothing; or something
    is wrong."""

    HOLDS = auto()
    MISSED = auto()
    WRONG = auto()


RECOVERY_SECONDS = FAST["LEASE_SECONDS"] + FAST["REAP_SECONDS"] + 2
SHOWN = 30


@dataclass(slots=True)
class Totals:
    """Sums over the rounds. ``seconds``: as long as the nemesis was about; ``start``: what a worker takes to begin;
    ``old``: how many of the workers are of the released version."""

    seed: str
    old: int = 0
    seconds: float = 0.0
    start: float = 0.0
    runs: int = 0
    acknowledged: int = 0
    unknown: int = 0
    ended: Counter[str] = field(default_factory=Counter)
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
    recoveries: list[Recovery] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)

    def add(self, story: Story, seconds: float, start: float) -> None:
        """The totals of a round that is over."""
        self.seconds += seconds
        self.start = max(self.start, start)
        self.runs += len(story.runs)
        known = _known(story)
        self.acknowledged += known["ok"]
        self.unknown += known["unknown"]
        self.ended.update(run.status for run in story.runs.values())
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
        self.recoveries += recoveries(story)
        self.violations += violations(story)

    @property
    def minutes(self) -> float:
        return self.seconds / 60

    @property
    def allowed(self) -> float:
        """Seconds within which a run goes on: where a start, which a suspect's own process needs, takes longer here
        than the two that are there for it, twice as long as that."""
        return RECOVERY_SECONDS - 2 + max(2.0, 2 * self.start)

    @property
    def seen(self) -> list[float]:
        return [recovery.seconds for recovery in self.recoveries]

    @property
    def clear(self) -> list[float]:
        return [recovery.clear for recovery in self.recoveries if recovery.clear is not None]

    def count(self, rules: tuple[str, ...]) -> int:
        return sum(violation.rule in rules for violation in self.violations)

    @property
    def unfinished(self) -> int:
        return self.count(("unfinished",))


def _known(story: Story) -> Counter[str]:
    """How many runs were acknowledged, and of how many nobody has heard."""
    known: dict[str, str] = {}
    for said in story.evidence.said:
        if said.verb == "enqueue":
            for tag in said.tags:
                if known.get(tag) != "ok":
                    known[tag] = "unknown" if said.moment == "invoke" else said.moment
    return Counter(known.values())


def missed(totals: Totals) -> Iterator[str]:
    """The goals that were not reached, in words."""
    if totals.violations:
        kinds = Counter(violation.rule for violation in totals.violations)
        yield "violations: " + ", ".join(f"{count} {rule}" for rule, count in kinds.most_common())
    for what, count, least in (
        ("acknowledged runs", totals.acknowledged, RUNS_A_MINUTE),
        ("faults", totals.faults.total(), FAULTS_A_MINUTE),
        ("faults that hit a running step", totals.hits.total(), HITS_A_MINUTE),
    ):
        if count < least * totals.minutes:
            yield f"{count:,} {what} in {totals.minutes:.1f} minutes, and {least:,} a minute are wanted"
    if not totals.contested:
        yield "no step ended beside an heir of its claim: that no stale write was found proves nothing"
    for direction in (TO_NEW, TO_OLD) if totals.old else ():
        if (count := totals.handovers[direction]) < HANDOVERS_A_MINUTE * totals.minutes:
            yield (
                f"{count:,} runs went on from {direction} code in {totals.minutes:.1f} minutes, and"
                f" {HANDOVERS_A_MINUTE:,} a minute are wanted"
            )
    # Beside workers of the released version it is theirs as well, which cannot be mended any more: that is told only.
    if not totals.old and (slow := percentile(totals.clear, 0.99)) > totals.allowed:
        yield f"recovery took {slow:.2f} s at p99, and {totals.allowed:.2f} s are allowed"


def verdict(totals: Totals) -> Verdict:
    if totals.violations:
        return Verdict.WRONG
    return Verdict.MISSED if any(missed(totals)) else Verdict.HOLDS


def table(totals: Totals) -> str:
    lines = [f"{'fault':22} {'done':>6} {'hit a step':>11}"]
    lines += [f"{kind:22} {count:6,} {totals.hits[kind]:11,}" for kind, count in sorted(totals.faults.items())]
    lines += [f"{'together':22} {totals.faults.total():6,} {totals.hits.total():11,}", ""]
    ended = ", ".join(f"{count:,} {status}" for status, count in totals.ended.most_common())
    lines.append(f"{totals.runs:,} runs ({ended}), {totals.steps:,} executions of steps")
    lines.append(f"{totals.acknowledged:,} acknowledged, {totals.unknown:,} of which nobody heard")
    if not totals.old:
        lines.append(f"{totals.fires:,} instants of a schedule")
    lines.append(f"{totals.poisoned:,} steps killed their process, {totals.starved:,} leases lapsed without a fault")
    why = ", ".join(f"{count:,} after {what}" for what, count in totals.repetitions.most_common())
    lines.append(f"{totals.repetitions.total():,} executions of steps were repetitions: {why or 'none'}")
    lines.append(f"{totals.zombies:,} steps ended without a claim, {totals.contested:,} of them beside an heir")
    if totals.old:
        counts = ", ".join(f"{totals.handovers[direction]:,} from {direction} code" for direction in (TO_NEW, TO_OLD))
        lines.append(f"{totals.old} workers of the released version; runs went on elsewhere: {counts}")
        lines.append(f"  {totals.not_undone:,} cancelled runs it ended with nothing undone, as nobody knew them")
    p50, p99, most = (percentile(totals.seen, part) for part in (0.5, 0.99, 1.0))
    lines.append(
        f"recovery of {len(totals.seen):,} runs after a SIGKILL: p50 {p50:.2f} s, p99 {p99:.2f} s, longest {most:.2f} s"
    )
    p50, p99 = (percentile(totals.clear, part) for part in (0.5, 0.99))
    lines.append(
        f"  without the time that PostgreSQL was away ({len(totals.clear):,}): p50 {p50:.2f} s, p99 {p99:.2f} s"
    )
    lines.append(
        f"  {RECOVERY_SECONDS:.1f} s wanted; {totals.allowed:.1f} s allowed where a start takes {totals.start:.1f} s"
    )
    lines += [str(violation) for violation in totals.violations[:SHOWN]]
    if len(totals.violations) > SHOWN:
        lines.append(f"... and {len(totals.violations) - SHOWN:,} more")
    return "\n".join(lines)


def as_data(totals: Totals) -> dict[str, Any]:
    """The last line."""
    return {
        "seed": totals.seed,
        "duration": round(totals.seconds, 1),
        "runs": totals.runs,
        "acknowledged": totals.acknowledged,
        "unknown": totals.unknown,
        "finished": sum(totals.ended[status] for status in TERMINAL),
        "faults": dict(sorted(totals.faults.items())),
        "faults_total": totals.faults.total(),
        "hit_a_running_step": totals.hits.total(),
        "lost": totals.count(LOST),
        "stale_writes": totals.count(STALE),
        "unexplained_repetitions": totals.count(REPEATED),
        "unfinished": totals.unfinished,
        "repetitions": dict(sorted(totals.repetitions.items())),
        "starved": totals.starved,
        "zombies": totals.zombies,
        "zombies_beside_an_heir": totals.contested,
        "old_workers": totals.old,
        "handovers": dict(sorted(totals.handovers.items())),
        "not_undone": totals.not_undone,
        "fires": totals.fires,
        "recovery": {
            "p50": round(percentile(totals.seen, 0.5), 2),
            "p99": round(percentile(totals.seen, 0.99), 2),
            "max": round(percentile(totals.seen, 1.0), 2),
            "clear_p99": round(percentile(totals.clear, 0.99), 2),
            "wanted": RECOVERY_SECONDS,
            "allowed": round(totals.allowed, 2),
            "start": round(totals.start, 2),
        },
        "violations": len(totals.violations),
    }
