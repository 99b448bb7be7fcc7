"""S0 to S4, S6 and S9: the same procedure for every system, sizes as in the goals.

A scenario is entered once for a system, with the workers that it needs, and measured several times in there: processes
that are just up, and the time that it takes to start them, are nobody's subject.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import quantiles

from .client import Client, Missing, wait_until
from .meter import Meter, rows_left_dead
from .quiet import wait_until_quiet
from .stage import Stage
from .systems import FLOOR, Participant
from .workers import Workers, workers

TIMEOUT = 180.0
BULK = 500
WARM_UP = 20
AT_ONCE = 5
SELDOM = 0.04
"""Seconds between two looks at how many steps are done, while the end is far away."""
LATENCY_SECONDS = 4.0
"""For a system that polls each second three hundred runs would be five minutes: as many as come in this time have to
do."""
ENOUGH_SECONDS, MOST = 4.0, 9
"""A scenario is repeated for so long, and so many times at most: what takes a quarter of a second would otherwise be
measured in one moment of a machine that others use too. Whole processes were seen to be a third slower for that."""
LONG_SECONDS = 15.0
"""After so long the last of the repetitions is left out: those who are slow would be half of all the time, and what
takes seconds is an average of many moments already."""
LEAST = 3
"""Repetitions, however slow and late, the first of which does not count: of one figure nobody sees how far it is from
the next."""
FIRST = 0.25
"""So much of a scenario is its first repetition, which does not count: what it is to warm is warm by then."""
FROM_RELEASE = "from_release"
"""Stands among what a repetition cost: its figure, had time run from when the workers were let go. Who polls waits for
its next look then, and who has much in flight for the first of it to come back."""


@dataclass(frozen=True)
class Sizes:
    """How many runs a scenario has; ``part`` of them in a trial."""

    enqueue: int = 5_000
    drain: int = 5_000
    steps_runs: int = 200
    steps: int = 10
    sequential: int = 500
    latency: int = 300
    mixed: int = 2_000

    def part(self, part: float) -> Sizes:
        return Sizes(**{name: max(2, round(value * part)) for name, value in vars(self).items()})


@dataclass(frozen=True)
class Sample:
    """One figure of one repetition, of so many ``operations``. ``cost`` as ``Meter`` gives it; ``noise`` in cores that
    others used just before."""

    figure: str
    value: float
    cost: dict[str, float]
    noise: float
    operations: int = 1

    def as_of(self, prefix: str) -> Sample:
        """The same under another name: ``S2_drain`` is ``S5_with_drain``."""
        return replace(self, figure=f"{prefix}_{self.figure.partition('_')[2]}")


Once = Callable[[], Iterator[Sample]]
"""Measures a scenario that was entered, one time more."""


@dataclass
class Bench:
    """One system in one of its variants, prepared: its client runs, its tables are empty."""

    stage: Stage
    participant: Participant
    python: Path
    client: Client
    environment: dict[str, str]
    database: str
    log: Path
    sizes: Sizes
    patience: float = 20.0
    """Seconds to wait for a quiet machine before each measurement."""
    part: float = 1.0
    waited: float = 0.0
    """Seconds so far for a quiet machine."""
    is_late: bool = False
    """Whether there is no time for as many repetitions as are asked for."""
    up: Workers | None = None
    """Those that are working for it."""

    @property
    def is_floor(self) -> bool:
        """Whether it is what the machine can do at all, and no system."""
        return self.participant.name == FLOOR

    @property
    def is_own(self) -> bool:
        """Whether it is of this project."""
        return self.participant.is_own

    @property
    def variant(self) -> str:
        return self.environment["BENCH_VARIANT"]

    def wait_until_quiet(self, *, are_up: bool = False) -> float:
        """As ``quiet.wait_until_quiet``, with our patience."""
        began = time.perf_counter()
        noise = wait_until_quiet(self.patience, are_up=are_up)
        self.waited += time.perf_counter() - began
        return noise

    def part_of(self, count: int) -> int:
        """As ``Sizes.part``, for sizes that are a scenario's own."""
        return max(2, round(count * self.part))

    def seconds_of(self, seconds: float) -> float:
        """As ``part_of``, for a time that has to pass: a trial waits for a fifth of it at least."""
        return seconds * max(self.part, 0.2)

    @contextmanager
    def workers(self, processes: int) -> Iterator[Workers]:
        """Ready: some runs have finished, and none of the processes is still starting up."""
        self.client.ask("clear")
        commands = self.client.ask("worker_commands", processes=processes).result
        with workers(commands, self.environment, self.log) as started:
            self.client.ask("enqueue", count=WARM_UP, steps=1)
            wait_until(self.client, "finished", WARM_UP, timeout=TIMEOUT, pause=0.05)
            # One may have done them all while another was still being imported, which takes CPU.
            self.wait_until_quiet(are_up=True)
            started.check()
            self.up = started
            try:
                yield started
            finally:
                self.up = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Its workers, if there are any, do not even poll meanwhile."""
        if self.up is None:
            yield
            return
        self.up.hold()
        try:
            yield
        finally:
            self.up.let_go()

    def fill(self, count: int, steps: int) -> None:
        """By the quickest door: how runs come in is not what is measured."""
        try:
            self.client.ask("enqueue_many", count=count, steps=steps, batch=BULK)
        except Missing:
            self.client.ask("enqueue", count=count, steps=steps)

    def analyse(self) -> None:
        """What was filled within a second has no statistics before autovacuum comes for it, in the midst of what is
        measured or after it: whose plans need them would be measured by chance."""
        with self.stage.connect(self.database) as connection:
            connection.execute("ANALYZE")


@contextmanager
def commits(bench: Bench, scenario: str) -> Iterator[Once]:
    """What S4 and S6 are held against, in their own minutes; asked of ``limits`` alone."""

    def once() -> Iterator[Sample]:
        yield _commits(f"{scenario}_commit_ms", bench, bench.sizes.sequential)

    yield once


def _commits(figure: str, bench: Bench, count: int) -> Sample:
    noise = bench.wait_until_quiet()
    meter = Meter(bench.stage, bench.client.pid)
    answer = bench.client.ask("commits", count=count)
    return Sample(figure, 1000 * answer.seconds / count, meter.cost(count), noise, count)


@contextmanager
def limits(bench: Bench) -> Iterator[Once]:
    """S0: what psycopg does with this database where nothing stands between; asked of ``limits`` alone."""

    def once() -> Iterator[Sample]:
        count = bench.sizes.enqueue
        yield _commits("commit_ms", bench, count)
        noise = bench.wait_until_quiet()
        meter, count = Meter(bench.stage, bench.client.pid), 10 * count
        answer = bench.client.ask("batched_inserts", count=count, batch=BULK)
        yield Sample("batched_insert", count / answer.seconds, meter.cost(count), noise, count)

    yield once


@contextmanager
def enqueue(bench: Bench) -> Iterator[Once]:
    """S1: one call a run, then the bulk door; no worker is there."""
    doors = (("S1_enqueue", "enqueue", {}), ("S1_bulk", "enqueue_many", {"batch": BULK}))

    def once() -> Iterator[Sample]:
        count = bench.sizes.enqueue
        for figure, call, more in doors:
            bench.client.ask("clear")
            noise = bench.wait_until_quiet()
            meter = Meter(bench.stage, bench.client.pid)
            try:
                answer = bench.client.ask(call, count=count, steps=1, **more)
            except Missing:
                continue
            yield Sample(figure, count / answer.seconds, meter.cost(count), noise, count)

    yield once


@contextmanager
def drain(bench: Bench, processes: int = 2) -> Iterator[Once]:
    """S2: one-step runs by two (or so many) worker processes, from the first outcome that is seen to the last."""
    with bench.workers(processes) as started:

        def once() -> Iterator[Sample]:
            count = bench.sizes.drain
            yield work_off("S2_drain", bench, started, "finished", count, 1, goal=count)

        yield once


@contextmanager
def steps(bench: Bench) -> Iterator[Once]:
    """S3: runs of ten no-op steps by one worker process, in steps a second."""
    with bench.workers(1) as started:
        counted = _steps_counted(bench)

        def once() -> Iterator[Sample]:
            runs, each = bench.sizes.steps_runs, bench.sizes.steps
            yield work_off("S3_steps", bench, started, counted, runs, each, goal=runs * each)

        yield once


@contextmanager
def sequential(bench: Bench) -> Iterator[Once]:
    """S4: one run of many steps, in milliseconds a step."""
    with bench.workers(1) as started:
        counted = _steps_counted(bench)

        def once() -> Iterator[Sample]:
            each = bench.sizes.sequential
            rate = work_off("S4_step_ms", bench, started, counted, 1, each, goal=each)
            cost = rate.cost | {FROM_RELEASE: 1000 / rate.cost[FROM_RELEASE]}
            yield replace(rate, value=1000 / rate.value, cost=cost)

        yield once


@contextmanager
def latency(bench: Bench) -> Iterator[Once]:
    """S6: single runs from start to result on an idle system, in milliseconds."""
    with bench.workers(1) as started:

        def once() -> Iterator[Sample]:
            noise = bench.wait_until_quiet(are_up=True)
            meter = Meter(bench.stage, bench.client.pid, started)
            found: list[float] = []
            ends = time.perf_counter() + LATENCY_SECONDS
            while len(found) < bench.sizes.latency and time.perf_counter() < ends:
                found += bench.client.ask("latency", count=min(AT_ONCE, bench.sizes.latency - len(found))).result
            cost, count = meter.cost(len(found)), len(found)
            # Of few the middle lies between two of them.
            cuts = quantiles(found, n=100, method="inclusive")
            yield Sample("S6_latency_p50_ms", cuts[49], cost, noise, count)
            yield Sample("S6_latency_p99_ms", cuts[98], cost, noise, count)

        yield once


@contextmanager
def mixed(bench: Bench) -> Iterator[Once]:
    """S9: one producer starts runs one by one while two worker processes drain."""
    with bench.workers(2) as started:

        def once() -> Iterator[Sample]:
            count = bench.sizes.mixed
            before = bench.client.count("finished")
            noise = bench.wait_until_quiet(are_up=True)
            meter = Meter(bench.stage, bench.client.pid, started)
            began = time.perf_counter()
            bench.client.ask("enqueue", count=count, steps=1)
            _, ended = wait_until(bench.client, "finished", before + count, timeout=TIMEOUT)
            cost = meter.cost(count)
            started.check()
            yield Sample("S9_mixed", count / (ended - began), cost, noise, count)

        yield once


SCENARIOS: dict[str, Callable[[Bench], AbstractContextManager[Once]]] = {
    "S0": limits,
    "S1": enqueue,
    "S2": drain,
    "S3": steps,
    "S4": sequential,
    "S6": latency,
    "S9": mixed,
}
OF_FLOOR: dict[str, Callable[[Bench], AbstractContextManager[Once]]] = {
    "S0": limits,
    "S1": enqueue,
    "S4": partial(commits, scenario="S4"),
    "S6": partial(commits, scenario="S6"),
}
"""What is measured of ``limits`` in a scenario that it has a part in."""


def measured(bench: Bench, scenario: str, repetitions: int) -> Iterator[list[Sample]]:
    """The samples of each time that the scenario is measured: ``repetitions`` times, the first of which is shorter,
    more often where these are soon over, and once less where they take long, or where the whole is late. Those of the
    last one know what all of it left behind.

    Raises Missing where the system has no such thing.
    """
    dead = DeadRows(bench)
    last: list[Sample] = []
    full = bench.sizes
    with (OF_FLOOR if bench.is_floor else SCENARIOS)[scenario](bench) as once:
        done, began, waited = 0, time.perf_counter(), bench.waited
        while _goes_on(done, repetitions, time.perf_counter() - began, bench.waited - waited, is_late=bench.is_late):
            bench.sizes = full if done or repetitions == 1 else first(full)
            if last:
                yield last
            last = list(once())
            dead.left_by(last)
            done += 1
    dead.tell(last)
    yield last


class DeadRows:
    """Row versions that all repetitions of a scenario have left behind, for each operation."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._before = rows_left_dead(bench.stage, bench.database)
        self._operations = 0

    def left_by(self, samples: Sequence[Sample]) -> None:
        """Figures that share their cost are of the same operations."""
        self._operations += sum({id(one.cost): one.operations for one in samples if one.cost}.values())

    def tell(self, samples: Sequence[Sample]) -> None:
        """Once no worker is left: sessions tell of it when they end, or seconds later."""
        left = rows_left_dead(self._bench.stage, self._bench.database) - self._before
        for one in samples:
            if one.cost:
                one.cost["dead_rows"] = round(left / max(1, self._operations), 4)


def _goes_on(done: int, repetitions: int, seconds: float, waited: float, *, is_late: bool = False) -> bool:
    """``waited`` of the ``seconds`` were for a quiet machine: who has company is not slow."""
    if repetitions <= 3:
        # Who asks for one or two tries something out, and gets these.
        return done < repetitions
    if is_late:
        repetitions -= 1
    if done < max(LEAST, repetitions - 1):
        return True
    if done < repetitions:
        return seconds - waited < LONG_SECONDS
    return not is_late and done <= MOST and seconds < ENOUGH_SECONDS


def first(full: Sizes) -> Sizes:
    # Runs of as many steps: only that of one run can be shorter.
    return replace(full.part(FIRST), steps=full.steps)


def _steps_counted(bench: Bench) -> str:
    """What can be watched growing while runs of several steps are under way."""
    try:
        bench.client.ask("steps_done")
    except Missing:
        return "finished"
    return "steps_done"


def work_off(
    figure: str,
    bench: Bench,
    started: Workers,
    counted: str,
    runs: int,
    each: int,
    *,
    goal: int,
    fill: Callable[[], object] | None = None,
    ended: str = "finished",
) -> Sample:
    """Operations a second between the first one seen and the last; beside what they cost, ``FROM_RELEASE``.

    Where only whole runs can be counted, or runs begin as they are started, from the instant at which work could begin.
    ``fill`` brings them in, ``ended`` counts what is to be ``runs`` more.
    """
    fill = fill or partial(bench.fill, runs, each)
    before = {call: bench.client.count(call) for call in {counted, ended}}
    if not bench.client.is_pushed:
        started.hold()
        fill()
        bench.analyse()
    noise = bench.wait_until_quiet(are_up=bench.client.is_pushed)
    meter = Meter(bench.stage, bench.client.pid, started)
    released = began = time.perf_counter()
    done = 0
    if bench.client.is_pushed:
        fill()
    else:
        started.let_go()
        if counted == "steps_done" or each == 1:
            seen, at = wait_until(bench.client, counted, before[counted] + 1, timeout=TIMEOUT, pause=0.001)
            # Where all of it was done before anybody looked, the start has to do.
            if seen - before[counted] < goal:
                done, began = seen - before[counted], at
    if counted != ended:
        # Steps tell how far it is: a few looks see the end soon. Of runs that end together nothing is seen before
        # that, and to ask for them all the time took a tenth of a core from what was measured.
        wait_until(bench.client, counted, before[counted] + goal, timeout=TIMEOUT, pause=SELDOM)
    there, at = wait_until(bench.client, ended, before[ended] + runs, timeout=TIMEOUT)
    # Where there is more than is waited for, some of it is done besides.
    goal += there - before[ended] - runs
    cost = meter.cost(goal) | {FROM_RELEASE: goal / (at - released)}
    started.check()
    return Sample(figure, (goal - done) / (at - began), cost, noise, goal)
