"""Runs that workers of two releases have worked on: how often one went on where the other had been."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from tests.chaos.story import Story

OLD, NEW = "old", "new"
TO_NEW, TO_OLD = f"{OLD} to {NEW}", f"{NEW} to {OLD}"


def handovers(story: Story) -> Counter[str]:
    """Of each direction how often what came next in a run was done by the other release.

    What is done: a journal entry, and the end of the run. A claim that nothing was written under hands nothing over.
    """
    return Counter(
        f"{before} to {after}"
        for run_id in story.runs
        for before, after in pairwise(_releases(story, run_id))
        if before != after
    )


def _releases(story: Story, run_id: str) -> Iterator[str]:
    """Whose worker did each thing that was done for the run, in its order."""
    done = [(written.seq, written.token) for written in story.writings.get(run_id, ())]
    ending = story.ending(run_id)
    if ending is not None and ending.old_token is not None:
        done.append((ending.seq, ending.old_token))
    for _, token in sorted(done):
        if (claim := story.claims.get(token)) is not None:
            yield OLD if claim.worker in story.evidence.released else NEW
