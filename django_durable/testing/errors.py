"""What a test is told: each is an AssertionError, so that the test fails with a sentence and not with a crash."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from ..exceptions import DurableError


class NotIdle(DurableError, AssertionError):
    """``run_until_idle`` has claimed far more often than work that ends needs."""

    def __init__(self, claims: int, workflow: str, run_id: UUID, of_run: int) -> None:
        self.claims, self.workflow, self.run_id, self.of_run = claims, workflow, run_id, of_run
        super().__init__(
            f"Still not idle after {claims} claims, {of_run} of them of run {run_id} of {workflow}, the last one. "
            "Does it wake itself, or start itself anew, for ever? Does a schedule make up for so many instants? "
            "An endless loop of sleeps never ends with skip_waits=True: move the clock with travel() instead. "
            "Give max_claims=… if this many are meant."
        )


class StepNotReached(DurableError, AssertionError):
    """The block of a ``crash_after`` ended, and its step had not crashed as often as it should."""

    def __init__(self, step: str, happened: int, times: int, seen: Sequence[str]) -> None:
        self.step, self.happened, self.times, self.seen = step, happened, times, list(seen)
        others = ", ".join(map(repr, self.seen[:20])) or "nothing at all: was run_until_idle() called in the block?"
        super().__init__(f"crash_after({step!r}): {happened} of {times} crashes happened. Journaled was {others}")


class NotDeterministic(DurableError, AssertionError):
    """A replay went another way than the attempt before it."""

    def __init__(self, workflow: str, run_id: UUID, difference: str) -> None:
        self.workflow, self.run_id, self.difference = workflow, run_id, difference
        super().__init__(
            f"{workflow} is not deterministic (run {run_id}): {difference} "
            "What differs from one call to the next (time, random numbers, queries, the order of a set) belongs "
            "in a step, or comes from ctx.now(), ctx.random() and ctx.uuid4()."
        )
