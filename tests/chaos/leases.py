"""Who had the right to work on a run, and whether anybody wrote without it: I3, I4, I5, I16, I19."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.chaos.evidence import Change, RunRow, Violation, Written
from tests.chaos.faults import DEADLY, FREEZE
from tests.chaos.programs import LIMIT
from tests.chaos.story import CLOCK_STEP, TERMINAL, Story
from tests.chaos.witness import RAISE, RETURN, UNWIND


def check_leases(story: Story) -> Iterator[Violation]:
    for run_id, row in story.runs.items():
        changes = story.changes.get(run_id, [])
        yield from _transitions(run_id, changes)
        claims = sum(change.is_claim for change in changes)
        if claims != row.claims:
            yield Violation("claims", run_id, f"was claimed {claims} times and counts {row.claims}")
        yield from _stale_writes(run_id, changes, story.writings.get(run_id, []))
        yield from _stale_outcome(story, row)
        yield from _crashes(story, run_id, changes)
    yield from _limits(story)


def _transitions(run_id: str, changes: list[Change]) -> Iterator[Violation]:
    """I3, I4: what is over stays so, and no claim begins before the one before it has ended."""
    token: str | None = None
    for change in changes:
        if change.was in TERMINAL:
            yield Violation("revived", run_id, f"went from {change.was} to {change.status}")
        if change.old_token != token:
            yield Violation("claims", run_id, f"had the lease {change.old_token}, and was last seen with {token}")
        if change.is_claim and change.old_token is not None:
            yield Violation("claims", run_id, "was claimed while somebody had it")
        token = change.token


def _stale_writes(run_id: str, changes: list[Change], writings: list[Written]) -> Iterator[Violation]:
    """I5: who wrote had the lease when its transaction began to write for the run.

    The lines of one transaction stand together, as the run is locked meanwhile; those of a transaction that both writes
    and ends the claim may come in either order.
    """
    token: str | None = None
    xid, before = -1, token
    lines: list[Change | Written] = [*changes, *writings]
    for line in sorted(lines, key=lambda line: line.seq):
        if line.xid != xid:
            xid, before = line.xid, token
        if isinstance(line, Change):
            token = line.token
        elif line.token != before:
            yield Violation(
                "stale", run_id, f"{line.path!r} was written under {line.token}, while {before} had the run"
            )


def _stale_outcome(story: Story, run: RunRow) -> Iterator[Violation]:
    """I5: who ended the run had the lease. An outcome bears no token, so that the run's function shows whose it is: it
    has come to such an end under the claim that the outcome ended.

    It says so before the outcome is sent, by a line that outlives its process: that there is none is excused by no
    fault. A cancellation may find nobody at work, and cuts short whom it finds.
    """
    ending = story.ending(run.id)
    if ending is None or ending.status == "cancelled":
        return
    # By the database's clock, which may have been set since.
    latest = story.monotonic(ending.at) + CLOCK_STEP
    ends = {line.moment for line in story.ends.get(ending.old_token or "", ()) if line.at <= latest}
    if ends.isdisjoint(_ends_of(story, run, ending.status)):
        text = f"{ending.status} while {ending.old_token} had the run, under which its function had come to no such end"
        yield Violation("stale", run.id, text)


def _ends_of(story: Story, run: RunRow, status: str) -> tuple[str, ...]:
    """How the function may have ended under the claim that ended the run."""
    if status == "succeeded":
        return (RETURN,)
    if any(step.is_undoable for step in story.steps(run).values()):
        # It has failed under a claim before; this one undid, and called it only to see what. It goes as far as that.
        return (RETURN, RAISE, UNWIND)
    return (RAISE,)


def _crashes(story: Story, run_id: str, changes: list[Change]) -> Iterator[Violation]:
    """I16: only deaths count, of a process that had nothing else; and silences for as long as a lease, which nobody can
    tell from deaths. Leases that lapse by themselves are few, or the run does not count."""
    before: Change | None = None
    for change in changes:
        if change.crashes > (before.crashes if before else 0):
            claim = story.claims.get(change.old_token or "")
            pid = story.pid_of(change)
            since = story.monotonic(claim.at if claim else change.at)
            if claim is None or not before or not before.suspect:
                yield Violation("crashes", run_id, "was counted as crashed, and had not been suspected before")
            elif not (change.lapsed or story.hits((*DEADLY, FREEZE), pid, since, story.monotonic(change.at))):
                yield Violation("crashes", run_id, f"was counted as crashed, and nothing had hit process {pid}")
        before = change


def _limits(story: Story) -> Iterator[Violation]:
    """I19. Claims of a key come one after the other, and count what is committed: the order of the lines is enough."""
    held: dict[str, set[str]] = defaultdict(set)
    for change in story.evidence.changes:
        if change.limit_key is None:
            continue
        holders = held[change.limit_key]
        if change.token is None:
            holders.discard(change.run)
        elif change.run not in holders:
            holders.add(change.run)
            if len(holders) > LIMIT:
                yield Violation("limit", change.run, f"is one of {len(holders)} at a time under {change.limit_key}")
