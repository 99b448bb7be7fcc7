"""S5: what a million finished runs in the tables cost those that come after them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .bench import Bench, Scenario
from .prepared import prepared
from .sample import Once, Sample

FINISHED = 1_000_000
TURNS = 4
"""Of each, every time: what is compared takes a tenth of a second, and a tenth is the goal. Peers take seconds."""


@contextmanager
def with_and_without(bench: Bench, *, scenario: Scenario) -> Iterator[Once]:
    """A scenario on two databases by turns, one of which has a history; each with workers of its own."""
    part, patience = bench.part, bench.patience
    with prepared(
        bench.stage, bench.participant, bench.python, bench.variant, part=part, patience=patience, beside="anew"
    ) as anew:
        # The history is copied from what the workers do first.
        with bench.workers(1):
            pass
        bench.client.ask("history", count=bench.part_of(FINISHED))
        anew.client.ask("history", count=0)
        with scenario(bench) as old, scenario(anew) as new:
            sides = [("S5_without", new, bench), ("S5_with", old, anew)]

            def once() -> Iterator[Sample]:
                anew.sizes = bench.sizes
                for _ in range(TURNS if bench.is_own else 1):
                    for prefix, measured, other in sides:
                        with other.held():
                            yield from (sample.as_of(prefix) for sample in measured())
                    # Neither is always the second.
                    sides.reverse()

            yield once
