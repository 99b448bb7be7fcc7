"""Is everything there that was asked for, once, and did it come to what its program means? I10 to I13, L2."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.chaos.evidence import RunRow, Said, Violation
from tests.chaos.programs import BAD, fails, result_of
from tests.chaos.story import TERMINAL, UNDO, Story

STEP_FAILED = "django_durable.exceptions.StepFailed"
BEST = {"ok": 2, "unknown": 1, "refused": 0}
"""Of several calls for one run, what is known of it."""


def check_losses(story: Story) -> Iterator[Violation]:
    calls = _calls(story, "enqueue")
    yield from _lost(story, calls)
    yield from _halves(story, calls)
    yield from _keys(calls)
    for run in story.runs.values():
        if run.status not in TERMINAL:
            yield Violation("unfinished", run.id, f"is {run.status} in the end")
            continue
        yield from _outcome(story, run)
        yield from _values(story, run)
        yield from _effects(story, run)


def _calls(story: Story, verb: str) -> list[Said]:
    """How each call came out; unknown where the client did not live to tell. All tags, and the ids that it was told."""
    calls: dict[int, Said] = {}
    for said in story.evidence.said:
        if said.verb == verb:
            moment = "unknown" if said.moment == "invoke" else said.moment
            calls[said.call] = Said(said.call, verb, moment, said.at, said.tags, said.runs, said.key, said.why)
    return list(calls.values())


def _lost(story: Story, calls: list[Said]) -> Iterator[Violation]:
    known: dict[str, int] = defaultdict(int)
    for call in calls:
        for tag in call.tags:
            known[tag] = max(known[tag], BEST[call.moment])
    for tag in sorted({*known, *story.by_tag}):
        rows = story.by_tag.get(tag, [])
        if tag not in known:
            yield Violation("nobodys", tag, "exists, and nobody has asked for it")
        elif known[tag] == BEST["ok"] and not rows:
            yield Violation("lost", tag, "was acknowledged, and does not exist")
        elif known[tag] == BEST["refused"] and rows:
            yield Violation("refused", tag, "was refused or rolled back, and exists")
        if len(rows) > 1:
            yield Violation("doubled", tag, f"was to be one run and is {len(rows)}")
    told = {(tag, run_id) for call in calls if call.moment == "ok" for tag, run_id in call.runs.items()}
    for tag, run_id in sorted(told):
        if story.by_tag.get(tag) and run_id not in {row.id for row in story.by_tag[tag]}:
            yield Violation("lost", tag, f"was acknowledged as run {run_id}, which does not exist")
    for run in story.runs.values():
        if not run.tag and run.parent not in story.runs:
            yield Violation("nobodys", run.id, "is a child, and its parent does not exist")


def _halves(story: Story, calls: list[Said]) -> Iterator[Violation]:
    for call in calls:
        there = [tag for tag in call.tags if story.by_tag.get(tag)]
        if call.moment == "unknown" and there and len(there) < len(call.tags):
            yield Violation("half", call.tags[0], f"{len(there)} of {len(call.tags)} runs of one call exist")


def _keys(calls: list[Said]) -> Iterator[Violation]:
    """I13: whoever came with the key was told of the same run."""
    told: dict[str, set[str]] = defaultdict(set)
    for call in calls:
        if call.key is not None and call.moment == "ok":
            told[call.key].update(call.runs.values())
    for key, ids in told.items():
        if len(ids) > 1:
            yield Violation("doubled", sorted(ids)[0], f"one of {len(ids)} runs that the key {key} gave")


def _outcome(story: Story, run: RunRow) -> Iterator[Violation]:
    """I12: the status and the result are those that the program defines."""
    if run.status == "cancelled":
        if not any(one.id in story.cancels for one in story.ancestors(run)):
            yield Violation("outcome", run.id, "is cancelled, and nobody has asked for that")
    elif fails(run.program) != (run.status == "failed"):
        yield Violation("outcome", run.id, f"is {run.status}, which its program does not define: {run.error}")
    elif run.status == "succeeded" and run.output != (expected := result_of(run.program)):
        yield Violation("result", run.id, f"is {run.output!r:.200} and not {expected!r:.200}")
    elif run.status == "failed" and (run.error or {}).get("type") != STEP_FAILED:
        yield Violation("outcome", run.id, f"failed otherwise than by its {BAD} step: {run.error}")


def _values(story: Story, run: RunRow) -> Iterator[Violation]:
    """What the journal holds is what the program's steps return."""
    steps = story.steps(run)
    for entry in story.entries.get(run.id, ()):
        if entry.kind not in ("step", "undo") or entry.status != "succeeded":
            continue
        step = steps.get(entry.path.removesuffix(UNDO))
        if step is None:
            yield Violation("result", run.id, f"has journaled {entry.path!r}, which is no step of its program")
        elif not isinstance(entry.value, dict) or entry.value.get("value") != step.value:
            yield Violation("result", run.id, f"has journaled {entry.value!r:.100} for {entry.path!r}")
    if run.status == "succeeded":
        for path, step in steps.items():
            if step.is_sure and (run.id, path) not in story.first_written:
                yield Violation("result", run.id, f"succeeded and has never journaled {path!r}")


def _effects(story: Story, run: RunRow) -> Iterator[Violation]:
    """I10: what atomic steps did stands once for each that is journaled. And what was to be undone is, and no more."""
    steps = story.steps(run)
    done = [path for path, step in steps.items() if step.is_atomic and (run.id, path) in story.first_written]
    if (counted := story.evidence.counters.get(run.id, 0)) != len(done):
        yield Violation("atomic", run.id, f"has {len(done)} atomic steps journaled and counted {counted}")
    for path, step in steps.items():
        if not step.is_undoable or (run.id, path) not in story.first_written:
            continue
        is_undone = (run.id, path + UNDO) in story.first_written
        is_to_be = run.status != "succeeded" or not step.is_sure
        if is_undone != is_to_be and run.id not in story.evidence.ended_unknown:
            yield Violation("undo", run.id, f"is {run.status}, and {path!r} was {'' if is_undone else 'not '}undone")
    if run.status == "failed":
        yield from _order_of_undoing(story, run)


def _order_of_undoing(story: Story, run: RunRow) -> Iterator[Violation]:
    """Last first, but for what losers of races did, which is undone when these are over. Turns of a loop leave the
    journal once they are undone: the order is that of the history, where one transaction is one instant."""
    writings = story.writings.get(run.id, ())
    instants = {xid: place for place, xid in enumerate(dict.fromkeys(written.xid for written in writings))}
    undone = [one.path.removesuffix(UNDO) for one in writings if one.kind == "undo" and one.status == "succeeded"]
    sure = {path for path, step in story.steps(run).items() if step.is_sure}
    done = [story.first_written.get((run.id, path)) for path in undone if path in sure]
    order = [instants[written.xid] for written in done if written is not None]
    if order != sorted(order, reverse=True):
        yield Violation("undo", run.id, f"has undone what it did at the instants {order} in this order")
