"""Joins what the steps, the client, the nemesis and the database say, and tells what cannot be."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.chaos.cancellations import check_cancellations
from tests.chaos.evidence import Evidence, Violation
from tests.chaos.leases import check_leases
from tests.chaos.losses import check_losses
from tests.chaos.repetitions import check_repetitions
from tests.chaos.story import Story
from tests.processes import FAST

RULES: tuple[Callable[[Story], Iterator[Violation]], ...] = (
    check_losses,
    check_leases,
    check_repetitions,
    check_cancellations,
)

LOST = ("lost", "half", "nobodys", "refused", "doubled")
STALE = ("stale", "claims", "revived")
REPEATED = ("repeated", "unwitnessed", "atomic")


def told(evidence: Evidence) -> Story:
    return Story(evidence, lease=FAST["LEASE_SECONDS"])


def violations(story: Story) -> list[Violation]:
    """All that is wrong, what the tables show by themselves included."""
    found = [violation for rule in RULES for violation in rule(story)]
    return found + [Violation("invariant", "", text) for text in story.evidence.invariants]


def check(evidence: Evidence) -> list[Violation]:
    return violations(told(evidence))
