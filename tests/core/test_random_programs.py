"""Programs that nobody thought of, through crashes and in any order of branches: they come out as if run plainly, and
what is undone is undone once and last first."""

from __future__ import annotations

import random
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_durable.core.journal.outcomes import Cancelled, Completed, Failed
from django_durable.core.journal.states import EntryStatus, Kind
from django_durable.core.kinds import loops
from django_durable.core.payloads.codec import decode
from django_durable.core.retries import Retry
from django_durable.exceptions import CannotFork

from .driving import World
from .programs import NODES, RACES_WITHIN, Plain, Program, Shop, draw, execute, is_undoable, programs

CRASHES = st.one_of(st.sets(st.integers(1, 60), max_size=12), st.just(set(range(1, 400))))
SEEDS = st.integers(0, 2**32)
LOST_MAX = st.sampled_from([1, loops.LOST_MAX])
"""After how many turns a loop undoes what losers did in them."""
BOUNDED = settings(max_examples=60, derandomize=True, suppress_health_check=list(HealthCheck))


def new_world(seed: float, **given: Any) -> World:
    world = World(step_retry=Retry(max_attempts=1), pick=random.Random(seed).choice, **given)
    for _ in range(200):
        world.send("word")
    return world


def as_plainly(program: Program) -> tuple[Any, Shop, set[str], list[str]]:
    """What it returns, what it does, what of that stands for good, and what a branch does that loses in any order."""
    shop, lost = Shop(), []
    plain = Plain(shop, lost)
    return execute(plain, shop, program), shop, plain.sold, lost


@BOUNDED
@given(st.one_of(programs(NODES), RACES_WITHIN), CRASHES, st.sets(st.integers(1, 60), max_size=6), SEEDS, LOST_MAX)
def test_a_program_comes_out_as_if_nothing_died_and_does_everything_once(
    program: Program, crashes: set[int], pauses: set[int], seed: int, lost_max: int
) -> None:
    expected, plain, _, lost = as_plainly(program)

    shop, world = Shop(), new_world(seed, crash_after=crashes, pause_after=pauses)
    with patch.object(loops, "LOST_MAX", lost_max):
        outcome = world.run(lambda ctx: execute(ctx, shop, program), limit=600)
    assert isinstance(outcome, Completed), (outcome, world.error)
    assert decode(outcome.output) == expected

    done = [call for call in shop.calls if call in set(plain.calls)]
    assert sorted(done) == sorted(plain.calls), "what had to be done was done, as often as plainly"
    assert not any(shop.calls.count(call) > lost.count(call) for call in set(shop.calls) - set(plain.calls))
    assert not any(entry.is_wait for path, entry in world.entries.items() if "/loser" not in path), "nobody waits there"
    assert shop.standing == plain.standing, "what losers did is undone, once, and nothing else"


@BOUNDED
@given(st.one_of(programs(NODES), RACES_WITHIN), st.sets(st.integers(1, 80), max_size=12), SEEDS, LOST_MAX)
def test_a_program_that_fails_at_last_undoes_everything_once_and_last_first(
    program: Program, crashes: set[int], seed: int, lost_max: int
) -> None:
    _, _, sold, _ = as_plainly(program)
    shop, world = Shop(), new_world(seed, crash_after=crashes)

    def body(ctx: Any) -> None:
        execute(ctx, shop, program)
        raise ArithmeticError("at last")

    with patch.object(loops, "LOST_MAX", lost_max):
        assert isinstance(world.run(body, limit=600), Failed)
    before = len(shop.undone)
    owed = [entry for entry in world.entries.values() if entry.undo and f"{entry.path}%undo" not in world.entries]
    assert world.undo(body) == {}
    assert set(shop.standing) == sold and set(shop.standing.values()) <= {1}
    last_first = [decode(entry.value or "") for entry in sorted(owed, key=lambda entry: -entry.seq)]
    assert shop.undone[before:] == last_first, "losers are no exception"


@pytest.mark.parametrize("seed", [5, 7, 16, 64, 68, 103])
def test_a_program_that_is_cancelled_anywhere_is_undone_and_goes_on_when_it_is_resumed_and_so_do_forks_of_it(
    seed: int,
) -> None:
    chance = random.Random(seed)
    program = draw(chance)
    with patch.object(loops, "LOST_MAX", chance.choice([1, loops.LOST_MAX])):
        world = new_world(seed)
        world.run(lambda ctx: execute(ctx, Shop(), program), limit=600)
        commits = range(1, len(world.commits) + 1)
        for commit in chance.sample(commits, min(len(commits), 4)):
            cancel_anywhere(program, commit, chance)


def cancel_anywhere(program: Program, commit: int, chance: random.Random) -> None:
    expected, plain, sold, _ = as_plainly(program)
    crashes = chance.choice([set(), {commit}, set(chance.sample(range(1, 80), 6))])
    shop, world = Shop(), new_world(chance.random(), cancel_after=commit, crash_after=crashes)

    def body(ctx: Any) -> Any:
        return execute(ctx, shop, program)

    if isinstance(world.run(body, limit=600), Cancelled):
        assert world.undo(body) == {}
        assert set(shop.standing.values()) <= {1}, "nothing is undone twice"
        # What a branch has sold that is to lose stands as long as it might win.
        assert {call for call in shop.standing if call in plain.calls} <= sold
        assert has_mark(program) or not shop.standing
        fork_anywhere(program, shop, world, chance)
        world.resume()
    outcome = world.run(body, limit=600)
    assert isinstance(outcome, Completed), (outcome, world.error)
    assert decode(outcome.output) == expected
    assert shop.standing == plain.standing
    done = [call for call in shop.calls if call in set(plain.calls) and not is_undoable(call)]
    assert sorted(done) == sorted(call for call in plain.calls if not is_undoable(call))
    fork_anywhere(program, shop, world, chance)


def has_mark(program: Any) -> bool:
    return program == "mark" or (isinstance(program, list | tuple) and any(map(has_mark, program)))


def fork_anywhere(program: Program, original: Shop, world: World, chance: random.Random) -> None:
    """It does what the original had not done before that, and nothing else."""
    paths = sorted(path for path in world.entries if "%" not in path)
    expected, plain, _, _ = as_plainly(program)
    shop, fork = Shop(drawn=original.drawn), new_world(chance.random())
    try:
        fork.entries = world.cut(chance.choice(paths))
    except (CannotFork, IndexError):
        return
    undos = {path for path, entry in fork.entries.items() if entry.kind == Kind.UNDO}
    undone = {path.removesuffix("%undo") for path in undos if fork.entries[path].status != EntryStatus.OPEN}
    steps = [entry for path, entry in fork.entries.items() if is_undoable(path) and path not in undone | undos]
    kept = [decode(entry.value or "") for entry in steps if entry.status == EntryStatus.SUCCEEDED]
    outcome = fork.run(lambda ctx: execute(ctx, shop, program), limit=600)
    assert isinstance(outcome, Completed), (outcome, fork.error)
    assert decode(outcome.output) == expected
    shop.calls += kept
    # Turns that are over may have left the journal.
    assert {call: times for call, times in shop.standing.items() if "[" not in call} == {
        call: times for call, times in plain.standing.items() if "[" not in call
    }
    assert set(shop.standing.values()) <= {1} and set(shop.standing) <= set(plain.calls)
