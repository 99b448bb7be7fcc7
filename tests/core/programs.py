"""Programs that nobody thought of, and what each of them means where nothing is journaled and nothing dies."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from django_durable.core.kinds.loops import Break, Continue
from django_durable.core.kinds.tries import Outcome
from django_durable.core.retries import Retry
from django_durable.exceptions import StepFailed

SCOPES = ("join", "race", "loop", "block")
Node = tuple[Any, ...]
Program = list[Node]

LEAVES = st.one_of(
    st.just(("step",)),
    st.just(("noted",)),
    st.just(("same",)),
    st.just(("undoable",)),
    st.just(("mark",)),
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


def draw(chance: random.Random, depth: int = 3) -> Program:
    """A program of scopes in scopes, in which there is much to undo."""

    def some(least: int, most: int) -> list[Program]:
        return [draw(chance, depth - 1) for _ in range(chance.randint(least, most))]

    def node() -> Node:
        match chance.choices(
            ("race", "loop", "block", "join", "leaf"), (20, 20, 8, 8, 44) if depth else (0, 0, 0, 0, 1)
        ):
            case ["race"]:
                return "race", draw(chance, depth - 1), some(0, 2), chance.randint(0, 2)
            case ["loop"]:
                return "loop", draw(chance, depth - 1), chance.randint(1, 4), chance.randint(0, 2)
            case ["block"]:
                return "block", draw(chance, depth - 1), chance.random() < 0.5
            case ["join"]:
                return "join", some(1, 3)
        return chance.choices(
            [("undoable",), ("mark",), ("step",), ("sleep", 5), ("event",), ("bad",)], (60, 10, 8, 8, 8, 6)
        )[0]

    return [node() for _ in range(chance.randint(1, 3))]


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

    @property
    def standing(self) -> Counter[str]:
        """What could be undone and was not, by how often it was done."""
        undoable = Counter(call for call in self.calls if is_undoable(call))
        undoable.subtract(self.undone)
        return Counter({call: times for call, times in undoable.items() if times})


def is_undoable(call: str) -> bool:
    return call.rpartition("/")[2].startswith("undoable")


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
        case ("mark",):
            return ctx.rollback_checkpoint(name)
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


@dataclass(eq=False)
class Done:
    """A step with a compensation, and the branches that it was done in: each as a scope and a name there."""

    what: str
    branches: dict[int, str]


class Plain:
    """The meaning of each call where nothing is journaled, nothing dies, and one branch runs after the other.

    ``lost`` are the calls of branches that lost, ``sold`` what stands because of points of no return.
    """

    def __init__(self, shop: Shop, lost: list[str]) -> None:
        self._shop, self._lost = shop, lost
        self._done: list[Done] = []
        self._marks: list[list[Done]] = []
        self._branches: dict[int, str] = {}
        self._scopes = 0

    @property
    def sold(self) -> set[str]:
        return {done.what for mark in self._marks for done in mark if done in self._done}

    def step(
        self,
        name: str,
        fn: Callable[..., Any],
        *args: Any,
        retry: Retry | None = None,
        compensate: Any = None,
        **options: Any,
    ) -> Any:
        left = retry.max_attempts if retry else 1
        while left:
            left -= 1
            try:
                value = fn(*args)
            except Exception as error:
                last = error
            else:
                if compensate is not None:
                    self._done.append(Done(value, dict(self._branches)))
                return value
        raise StepFailed(name, 1, {"type": type(last).__name__})

    def rollback_checkpoint(self, name: str) -> None:
        self._marks.append([done for done in self._done if not self._is_beside(done)])

    def _is_beside(self, done: Done) -> bool:
        return any(done.branches.get(scope, branch) != branch for scope, branch in self._branches.items())

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
        self._scopes += 1
        scope = self._scopes
        return {branch: self._in_branch(scope, branch, body) for branch, body in bodies.items()}

    def _in_branch(self, scope: int, branch: str, body: Callable[[Any], Any]) -> Any:
        around, self._branches = self._branches, {**self._branches, scope: branch}
        try:
            return body(self)
        finally:
            self._branches = around

    def race(self, name: str, bodies: Mapping[str, Callable[[Any], Any]]) -> tuple[str, Any]:
        self._scopes += 1
        scope = self._scopes
        for branch, body in bodies.items():
            calls, done, marks = len(self._shop.calls), len(self._done), len(self._marks)
            try:
                value = self._in_branch(scope, branch, body)
            except Never:
                self._lost += self._shop.calls[calls:]
                del self._shop.calls[calls:], self._done[done:], self._marks[marks:]
            else:
                won = branch, value
        return won

    def loop(self, name: str, turn: Callable[[Any, Any], Any], state: Any, history: int) -> Any:
        while isinstance(done := turn(self, state), Continue):
            state = done.state
        return done.value
