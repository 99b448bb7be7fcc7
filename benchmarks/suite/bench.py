"""What a scenario is given: one system in one of its variants, prepared, and how much of everything."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from .client import Client, Missing, wait_until
from .quiet import wait_until_quiet
from .sample import Once
from .stage import Stage
from .systems import FLOOR, Participant
from .workers import Workers, workers

TIMEOUT = 180.0
"""Seconds for whatever a client waits for."""
BULK = 500
WARM_UP = 20


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


Scenario = Callable[[Bench], AbstractContextManager[Once]]
"""Entered once for a system, with the workers that it needs."""
