"""What a run of chaos has to come to, so that it counts, and whether it did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from math import ceil

from tests.chaos.fleet import CONCURRENCY
from tests.chaos.handovers import TO_NEW, TO_OLD
from tests.chaos.repetitions import HELD_UP
from tests.chaos.totals import Totals

RUNS_A_MINUTE = 2_000
FAULTS_A_MINUTE = 60
HITS_A_MINUTE = 20
HANDOVERS_A_MINUTE = 20
"""Of each direction, where workers of two releases work side by side."""
CONTESTED_A_MINUTE = 1
"""For each whole minute, and at least one. Each may have sent what only the fence refuses: of few it proves little that
no stale write is found. They come by chance, six a minute as a rule, and in no round of two minutes fewer than four: so
one minute without any is rare, and an hour with fewer than sixty would be another load, or another nemesis."""
RECOVERIES_A_MINUTE = 10
"""Less than half of the usual: of fewer the p99 says nothing, and that of none is 0."""
HIT_AGAIN_PART = 0.2
"""Of the recoveries, how many may be none whose time is told, as their next process was hit too. Less than a tenth is
usual; what makes runs wait for long makes them be hit again, and would hide what it did."""

STARVED_PART = 0.003
"""Of the claims, how many leases may lapse without a fault that cost them. A lapsed lease explains a repetition,
whatever became of it: an engine that forgets to renew some would look like a machine too slow for its heartbeats.
In an hour (seed 20261206) there were 42 of 258,577. Of leases that nobody renews half lapse with no fault near."""
HELD_UP_PART = 0.0002
"""Of the claims, how many steps may begin late under a claim that had lapsed, without a freeze; one at least. In that
hour there was none."""
STARVED_AT_ONCE = CONCURRENCY
"""What one process works on: it may be held up once in a run so short that this is more."""


class Verdict(Enum):
    """Every goal holds; nothing is wrong, but too little was done or too late, so that it proves nothing; or something
    is wrong."""

    HOLDS = auto()
    MISSED = auto()
    WRONG = auto()


@dataclass(frozen=True, slots=True)
class Missed:
    """A goal that was not reached: its name and figures for the last line, and all of it in words."""

    goal: str
    figure: float
    wanted: float
    text: str

    def __str__(self) -> str:
        return self.text


def missed(totals: Totals) -> Iterator[Missed]:
    """The goals that were not reached."""
    if totals.violations:
        kinds = Counter(violation.rule for violation in totals.violations)
        text = "violations: " + ", ".join(f"{count} {rule}" for rule, count in kinds.most_common())
        yield Missed("violations", len(totals.violations), 0, text)
    yield from _too_little(totals)
    yield from _too_often(totals)
    yield from _too_late(totals)


def _too_little(totals: Totals) -> Iterator[Missed]:
    goals = [
        ("acknowledged", "acknowledged runs", totals.acknowledged, RUNS_A_MINUTE),
        ("faults", "faults", totals.faults.total(), FAULTS_A_MINUTE),
        ("hit_a_running_step", "faults that hit a running step", totals.hits.total(), HITS_A_MINUTE),
    ]
    for direction in (TO_NEW, TO_OLD) if totals.old else ():
        what = f"runs that went on from {direction} code"
        goals.append((f"handovers {direction}", what, totals.handovers[direction], HANDOVERS_A_MINUTE))
    if not totals.old:
        what = "recoveries in which nothing else was hit"
        goals.append(("recoveries", what, len(totals.clear), RECOVERIES_A_MINUTE))
    for goal, what, count, least in goals:
        if count < (wanted := least * totals.minutes):
            text = f"{count:,} {what} in {totals.minutes:.1f} minutes, and {least:,} a minute are wanted"
            yield Missed(goal, count, ceil(wanted), text)
    if totals.contested < (wanted := max(1, CONTESTED_A_MINUTE * int(totals.minutes))):
        text = (
            f"{totals.contested:,} steps ended beside an heir of their claim in {totals.minutes:.1f} minutes, and"
            f" {wanted:,} are wanted: that no stale write was found proves little"
        )
        yield Missed("zombies_beside_an_heir", totals.contested, wanted, text)


def _too_often(totals: Totals) -> Iterator[Missed]:
    allowed = max(int(STARVED_PART * totals.claims), STARVED_AT_ONCE)
    if totals.starved > allowed:
        text = f"{totals.starved:,} of {totals.claims:,} leases lapsed without a fault, and {allowed:,} are allowed"
        yield Missed("starved", totals.starved, allowed, text)
    late, few = totals.repetitions[HELD_UP], max(int(HELD_UP_PART * totals.claims), 1)
    if late > few:
        text = f"{late:,} steps began late under a claim that had lapsed, with no freeze, and {few:,} may"
        yield Missed("held_up", late, few, text)
    if not totals.old and totals.hit_again > (most := int(HIT_AGAIN_PART * len(totals.recoveries))):
        text = f"{totals.hit_again:,} of {len(totals.recoveries):,} recoveries were hit again, and {most:,} may be"
        yield Missed("hit_again", totals.hit_again, most, text)


def _too_late(totals: Totals) -> Iterator[Missed]:
    # Beside workers of the released version it is theirs as well, which cannot be mended any more: that is told only.
    if not totals.old and (slow := totals.slow).excess > 0:
        text = (
            f"recovery took {slow.seconds:.2f} s at p99, and its round allows {slow.allowed:.2f} s:"
            f" {totals.beyond_allowed:,} of {len(totals.clear):,} took longer than theirs allow"
        )
        yield Missed("recovery", round(slow.seconds, 2), round(slow.allowed, 2), text)


def verdict(totals: Totals) -> Verdict:
    if totals.violations:
        return Verdict.WRONG
    return Verdict.MISSED if any(missed(totals)) else Verdict.HOLDS
