"""Who was told that a run is cancelled may rely on that, and on the same for all that hangs on it: I14, I18."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from tests.chaos.evidence import RunRow, Violation
from tests.chaos.faults import FREEZE, OF_POSTGRES
from tests.chaos.programs import SLOWEST
from tests.chaos.repetitions import HEARTBEAT, starved
from tests.chaos.story import CLOCK_STEP, Execution, Story

GRACE = 2 * HEARTBEAT + SLOWEST
"""Seconds after which who works on a cancelled run has heard of it and ended its step: a step and two heartbeats."""


def check_cancellations(story: Story) -> Iterator[Violation]:
    starvation = [(story.pid_of(change), story.monotonic(change.at)) for change in starved(story)]
    children: dict[str, list[RunRow]] = defaultdict(list)
    for run in story.runs.values():
        children[run.parent or ""].append(run)
    for told, acknowledged in story.cancels.items():
        if acknowledged is None:
            continue
        for run in _cancelled_with(story, told, children):
            yield from _ran_on(story, run, told, acknowledged)
            yield from _began_late(story, run, told, acknowledged, starvation)


def _cancelled_with(story: Story, run_id: str, children: Mapping[str, list[RunRow]]) -> Iterator[RunRow]:
    """The run, and its descendants, as far as the cancellation came: not by one that was over. No program detaches a
    child; one that is started later ends as it starts."""
    found = [story.runs[run_id]] if run_id in story.runs else []
    while found:
        run = found.pop()
        yield run
        if run.status == "cancelled":
            found += children.get(run.id, ())


def _ran_on(story: Story, run: RunRow, told: str, acknowledged: float) -> Iterator[Violation]:
    ending = story.ending(run.id)
    ended = None if ending is None else story.monotonic(ending.at)
    if run.status != "cancelled" and ended is not None and ended > acknowledged + CLOCK_STEP:
        text = f"is {run.status} since {ended - acknowledged:.3f} s after {_whom(run, told)} was cancelled"
        yield Violation("cancel", run.id, text)


def _began_late(
    story: Story, run: RunRow, told: str, acknowledged: float, starvation: list[tuple[int, float]]
) -> Iterator[Violation]:
    """What the run began when it should have been heard of long ago, compensations aside."""
    if run.status != "cancelled":
        return
    for one in story.by_run.get(run.id, ()):
        late = one.began - acknowledged
        if one.is_undo or late <= GRACE:
            continue
        if any(pid == one.pid and abs(at - acknowledged) < late + story.lease for pid, at in starvation):
            # The machine was too slow for this process to beat, which is counted.
            continue
        deaf = late - story.away(acknowledged, one.began)
        if deaf > GRACE + _cut_off(story, one, acknowledged) and not story.hits(
            (FREEZE,), one.pid, acknowledged - story.lease, one.began
        ):
            yield Violation("cancel", run.id, f"began {one.path!r} {late:.3f} s after {_whom(run, told)} was cancelled")


def _whom(run: RunRow, told: str) -> str:
    return "it" if run.id == told else f"{told} above it"


def _cut_off(story: Story, one: Execution, since: float) -> float:
    """Seconds that heartbeats may have lost beside outages: each fault that took their connection cost one of them."""
    return HEARTBEAT * len(story.hits(OF_POSTGRES, one.pid, since - story.lease, one.began))
