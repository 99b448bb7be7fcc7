"""Results as a test wants them, and what is made of them."""

from __future__ import annotations

from pathlib import Path

from benchmarks.suite.goals import verdicts
from benchmarks.suite.ledger import Ledger
from benchmarks.suite.sample import Sample


def ledger(path: Path, **figures: list[float]) -> Ledger:
    """``S2_drain__dbos__sync=[1.0, 2.0]``."""
    made = Ledger.new(path)
    for name, values in figures.items():
        figure, system, variant = name.split("__")
        for value in values:
            made.add(system, variant, Sample(figure, value, {"wal_bytes": value}, 0.0))
    return made


def ratios(made: Ledger) -> dict[str, tuple[float, bool]]:
    return {verdict.name: (round(verdict.ratio, 3), verdict.is_met) for verdict in verdicts(made)}
