"""Who came to the end of a step when its claim was gone: without some of these, no stale write proves nothing."""

from __future__ import annotations

from collections.abc import Iterator

from tests.chaos.story import Execution, Story


def zombies(story: Story) -> Iterator[tuple[Execution, bool]]:
    """The executions that ended after their claim had been taken away, and whether another claim had the run then.

    Only those have something to write, and only the second ones something to write over.
    """
    lost = {change.old_token: change for change in story.evidence.changes if change.old_token and change.token is None}
    for execution in story.ended.values():
        change = lost.get(execution.token)
        if change is None or execution.ended is None or story.monotonic(change.at) >= execution.ended:
            continue
        later = [one for one in story.changes[execution.run] if story.monotonic(one.at) < execution.ended]
        yield execution, later[-1].token is not None
