"""What 0.1.0 is known for beside newer code: it may end a cancelled run of a workflow that it does not know, and undo
nothing of it.

It does so where no live worker knows the workflow and the run has waited for two leases. Newer code blocks such a run,
and whoever knows its workflow undoes what there is to undo. The old worker says so in its log, and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tests.chaos.story import Story

ENDED = re.compile(r" cancelled run=(\S+) workflow=\S+ reason=unknown_workflow$", re.MULTILINE)


def ended_unknown(logs: Iterable[Path]) -> set[str]:
    """The runs that were ended so, as these logs of workers have it."""
    return {run for log in logs for run in ENDED.findall(log.read_text(errors="replace"))}


def count_not_undone(story: Story) -> int:
    """How many of them had something to undo."""
    return sum(
        any(step.is_undoable and (run_id, path) in story.first_written for path, step in story.steps(run).items())
        for run_id, run in story.runs.items()
        if run_id in story.evidence.ended_unknown
    )
