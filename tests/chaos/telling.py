"""Tells the history of runs out of the logs that a round has kept: `python -m tests.chaos.telling FOLDER RUN...`.

Without a run: what is wrong, and the runs that took longest to recover.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.chaos.checker import told, violations
from tests.chaos.evidence import Evidence
from tests.chaos.recovery import recoveries
from tests.chaos.story import Story

FILE = "evidence.pickle"
LONGEST = 10


def save(evidence: Evidence, folder: Path) -> None:
    with (folder / FILE).open("wb") as file:
        pickle.dump(evidence, file)


def load(folder: Path) -> Story:
    """Of a file that a round has written, here: nothing that came from elsewhere."""
    with (folder / FILE).open("rb") as file:
        return told(pickle.load(file))  # noqa: S301


def history(story: Story, run: str) -> Iterator[tuple[float, str]]:
    """All that is known of a run, with its instants, and what hit its processes."""
    yield 0.0, str(story.runs.get(run))
    for change in story.changes.get(run, ()):
        lease = f"{change.old_token} -> {change.token}"
        marks = " ".join(mark for mark in ("suspect", "lapsed", "cancelling") if getattr(change, mark))
        text = f"{change.was} -> {change.status}, lease {lease}, process {story.pid_of(change)}, {marks}"
        yield story.monotonic(change.at), f"{text} crashes={change.crashes} seq={change.seq} xid={change.xid}"
    for written in story.writings.get(run, ()):
        text = f"journal: {written.path} {written.status} by {written.execution} under {written.token}"
        yield story.monotonic(written.at), f"{text} seq={written.seq} xid={written.xid}"
    for line in story.evidence.lines:
        if line.run == run:
            what = f"step: {line.path} {line.moment} {line.by}" if line.path else f"function: {line.moment}"
            text = f"{what} attempt {line.attempt}"
            yield line.at, f"{text} in {line.pid} under {line.token}"
    for said in story.evidence.said:
        if run in said.runs.values():
            yield said.at, f"client: {said.verb} {said.moment} {said.key or ''} {said.why}"
    pids = {one.pid for one in story.by_run.get(run, ())} | {story.pid_of(one) for one in story.changes.get(run, ())}
    for fault in story.faults:
        if not fault.pids or pids.intersection(fault.pids):
            yield fault.at, f"FAULT {fault.kind} {fault.pids} for {fault.until - fault.at:.2f} s"


def main(folder: str, *runs: str) -> int:
    story = load(Path(folder))
    for run in runs:
        for at, text in sorted(history(story, run)):
            print(f"{at:12.3f} {text}")
    if not runs:
        for violation in violations(story):
            print(violation)
        for recovery in sorted(recoveries(story), key=lambda one: one.seconds)[-LONGEST:]:
            print(recovery)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
