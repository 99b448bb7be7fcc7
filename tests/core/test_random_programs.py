"""Programs that nobody thought of, through crashes and in any order of branches: they come out as if run plainly."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_durable.core.journal.outcomes import Completed, Failed
from django_durable.core.kinds.loops import Break, Continue
from django_durable.core.kinds.tries import Outcome
from django_durable.core.payloads.codec import decode
from django_durable.core.retries import Retry
from django_durable.exceptions import StepFailed

from .driving import World

SCOPES = ("join", "race", "loop", "block")
Node = tuple[Any, ...]
Program = list[Node]

LEAVES = st.one_of(
    st.just(("step",)),
    st.just(("noted",)),
    st.just(("same",)),
    st.just(("undoable",)),
    st.just(("event",)),
    st.just(("bad",)),
    st.tuples(st.just("flaky"), st.sampled_from([0, 7])),
    st.tuples(st.just("sleep"), st.sampled_from([0, 1, 5, 60])),
    st.tuples(st.just("map"), st.integers(0, 4), st.sampled_from([None, 1, 2])),
)


def programs(node: st.SearchStrategy[Node]) -> st.SearchStrategy[Program]:
    return st.lists(node, min_size=1, max_size=3)


NODES: st.SearchStrategy[Node] = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(st.just("join"), st.lists(programs(inner), min_size=1, max_size=3)),
        st.tuples(st.just("race"), programs(inner), st.lists(programs(inner), max_size=2), st.integers(0, 2)),
        st.tuples(st.just("loop"), programs(inner), st.integers(1, 4), st.integers(0, 2)),
        st.tuples(st.just("block"), programs(inner), st.booleans()),
    ),
    max_leaves=9,
)


def scopes_around(inner: st.SearchStrategy[Program]) -> st.SearchStrategy[Node]:
    return st.one_of(
        st.tuples(st.just("join"), st.tuples(inner).map(list)),
        st.tuples(st.just("race"), inner, st.just([]), st.just(0)),
        st.tuples(st.just("loop"), inner, st.integers(1, 3), st.integers(0, 2)),
        st.tuples(st.just("block"), inner, st.booleans()),
    )


UNDOABLE: st.SearchStrategy[Program] = programs(LEAVES).map(lambda program: [("undoable",), *program])
RACES = st.tuples(st.just("race"), programs(LEAVES), st.lists(UNDOABLE, min_size=1, max_size=2), st.integers(0, 2))
RACES_WITHIN: st.SearchStrategy[Program] = st.tuples(scopes_around(st.tuples(RACES).map(list)), NODES).map(list)
"""What a loser did has to be undone when the scope around its race is long over."""


class Never(BaseException):
    """A plain execution waits for what does not come."""


@dataclass
class Shop:
    """What the programs do. ``calls`` has a line for each time that a body ran."""

    calls: list[str] = field(default_factory=list)
    undone: list[str] = field(default_factory=list)
    drawn: int = 0

    def do(self, what: str) -> str:
        self.calls.append(what)
        return what

    def undo(self, what: str) -> None:
        self.undone.append(what)

    def flaky(self, what: str) -> str:
        self.calls.append(what)
        if self.calls.count(what) % 3:
            raise ValueError("not yet")
        return what

    def draw(self) -> int:
        """Another number each time: who has seen one and builds on it notices where it was lost."""
        self.drawn += 1
        return self.drawn

    def bad(self, what: str) -> None:
        self.calls.append(what)
        raise KeyError(what)


def execute(ctx: Any, shop: Shop, program: Program, scope: str = "") -> list[Any]:
    return [perform(ctx, shop, node, f"{node[0]}{index}", scope) for index, node in enumerate(program)]


def perform(ctx: Any, shop: Shop, node: Node, name: str, scope: str) -> Any:
    """``scope`` is where the program believes to be: what it does is known by that, with and without a journal."""
    path = f"{scope}{name}"

    def inside(program: Program, at: str) -> Callable[..., Any]:
        return lambda ctx: built_on(ctx) and execute(ctx, shop, program, f"{at}/")

    def built_on(ctx: Any) -> bool:
        if ctx.step("built on", lambda: drawn) != drawn:
            raise AssertionError(f"{path} was given {drawn}, and built on another number before it died")
        return True

    drawn = ctx.step("drawn", shop.draw, key=name, ephemeral=True) if node[0] in SCOPES else 0
    match node:
        case ("step",):
            return ctx.step(name, shop.do, path)
        case ("noted",):
            return ctx.step(name, len, path, ephemeral=True)
        case ("same",):
            same = (str(ctx.uuid4()), ctx.random(), ctx.now())
            return ctx.step(name, lambda: same) == same
        case ("undoable",):
            return ctx.step(name, shop.do, path, compensate=shop.undo)
        case ("event",):
            return ctx.wait_for_event(name, event="word").name
        case ("bad",):
            outcome = ctx.try_step(name, shop.bad, path, retry=Retry(max_attempts=1))
            return outcome.ok, outcome.error["type"]
        case ("flaky", delay):
            return ctx.step(name, shop.flaky, path, retry=Retry(max_attempts=3, initial=delay, factor=1, jitter=0))
        case ("sleep", seconds):
            return ctx.sleep(name, seconds)
        case ("map", count, most):
            return ctx.map(name, lambda n: shop.do(f"{path}[{n}]"), range(count), max_parallel=most)
        case ("join", branches):
            return ctx.join(name, {f"b{n}": inside(body, f"{path}/b{n}") for n, body in enumerate(branches)})
        case ("race", winner, losers, place):
            bodies = {f"loser{n}": lose(inside(body, f"{path}/loser{n}")) for n, body in enumerate(losers)}
            won = ("w", inside(winner, f"{path}/w"))
            return ctx.race(name, dict([*list(bodies.items())[:place], won, *list(bodies.items())[place:]]))
        case ("loop", body, turns, history):

            def turn(ctx: Any, n: int) -> Any:
                done = inside(body, f"{path}[{n}]")(ctx)
                return Break(done) if n == turns - 1 else Continue(n + 1)

            return ctx.loop(name, turn, 0, history=history)
        case ("block", body, is_bad):

            def block(ctx: Any) -> Any:
                done = inside(body, path)(ctx)
                if is_bad:
                    raise LookupError(path)
                return done

            outcome = ctx.try_block(name, block)
            return outcome.ok, outcome.value, outcome.error and outcome.error["message"]
    raise AssertionError(node)


def lose(body: Callable[..., Any]) -> Callable[..., Any]:
    def loser(ctx: Any) -> Any:
        body(ctx)
        return ctx.wait_for_event("never")

    return loser


class Plain:
    """The meaning of each call where nothing is journaled, nothing dies, and one branch runs after the other."""

    def __init__(self, shop: Shop, lost: list[str]) -> None:
        self._shop, self._lost = shop, lost

    def step(self, name: str, fn: Callable[..., Any], *args: Any, retry: Retry | None = None, **options: Any) -> Any:
        left = retry.max_attempts if retry else 1
        while left:
            left -= 1
            try:
                return fn(*args)
            except Exception as error:
                last = error
        raise StepFailed(name, 1, {"type": type(last).__name__})

    def try_step(self, name: str, fn: Callable[..., Any], *args: Any, **options: Any) -> Outcome:
        try:
            return Outcome(True, self.step(name, fn, *args, **options))
        except StepFailed as error:
            return Outcome(False, error=error.error)

    def try_block(self, name: str, fn: Callable[[Any], Any]) -> Outcome:
        try:
            return Outcome(True, fn(self))
        except LookupError as error:
            return Outcome(False, error={"message": str(error)})

    def sleep(self, name: str, seconds: float) -> None: ...

    def uuid4(self) -> int:
        return 0

    random = now = uuid4

    def wait_for_event(self, name: str, event: str | None = None) -> Any:
        if event is None:
            raise Never
        return type("Event", (), {"name": event})

    def map(self, name: str, fn: Callable[[Any], Any], items: Iterable[Any], max_parallel: int | None) -> list[Any]:
        return [fn(item) for item in items]

    def join(self, name: str, bodies: Mapping[str, Callable[[Any], Any]]) -> dict[str, Any]:
        return {branch: body(self) for branch, body in bodies.items()}

    def race(self, name: str, bodies: Mapping[str, Callable[[Any], Any]]) -> tuple[str, Any]:
        for branch, body in bodies.items():
            before = len(self._shop.calls)
            try:
                value = body(self)
            except Never:
                self._lost += self._shop.calls[before:]
                del self._shop.calls[before:]
            else:
                won = branch, value
        return won

    def loop(self, name: str, turn: Callable[[Any, Any], Any], state: Any, history: int) -> Any:
        while isinstance(done := turn(self, state), Continue):
            state = done.state
        return done.value


CRASHES = st.one_of(st.sets(st.integers(1, 60), max_size=12), st.just(set(range(1, 400))))


@settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    st.one_of(programs(NODES), RACES_WITHIN), CRASHES, st.sets(st.integers(1, 60), max_size=6), st.integers(0, 2**32)
)
def test_a_program_comes_out_as_if_nothing_died_and_does_everything_once(
    program: Program, crashes: set[int], pauses: set[int], seed: int
) -> None:
    plain, lost = Shop(), []
    expected = execute(Plain(plain, lost), plain, program)

    shop = Shop()
    pick = random.Random(seed).choice
    world = World(step_retry=Retry(max_attempts=1), crash_after=crashes, pause_after=pauses, pick=pick)
    for _ in range(200):
        world.send("word")
    outcome = world.run(lambda ctx: execute(ctx, shop, program), limit=600)
    assert isinstance(outcome, Completed), (outcome, world.error)
    assert decode(outcome.output) == expected

    done = [call for call in shop.calls if call in set(plain.calls)]
    assert sorted(done) == sorted(plain.calls), "what had to be done was done, as often as plainly"
    assert not any(shop.calls.count(call) > lost.count(call) for call in set(shop.calls) - set(plain.calls))
    assert not any(entry.is_wait for path, entry in world.entries.items() if "/loser" not in path), "nobody waits there"
    by_losers = [call for call in set(shop.calls) - set(plain.calls) if "undoable" in call.rpartition("/")[2]]
    assert sorted(shop.undone) == sorted(by_losers), "what losers did is undone, and nothing else"


@settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(programs(NODES), st.sets(st.integers(1, 80), max_size=12), st.integers(0, 2**32))
def test_a_program_that_fails_at_last_undoes_everything_once_and_last_first(
    program: Program, crashes: set[int], seed: int
) -> None:
    shop = Shop()
    world = World(step_retry=Retry(max_attempts=1), crash_after=crashes, pick=random.Random(seed).choice)
    for _ in range(200):
        world.send("word")

    def body(ctx: Any) -> None:
        execute(ctx, shop, program)
        raise ArithmeticError("at last")

    assert isinstance(world.run(body, limit=600), Failed)
    owed = sorted((entry for entry in world.entries.values() if entry.undo), key=lambda entry: -entry.seq)
    assert world.undo(body) == {}
    assert sorted(shop.undone) == sorted(decode(entry.value or "") for entry in owed)
    kept = [decode(entry.value or "") for entry in owed if "/loser" not in entry.path]
    assert [what for what in shop.undone if "/loser" not in what] == kept, (
        "losers are undone apart, all others last first"
    )
