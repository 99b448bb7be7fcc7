"""A worker of the real parts, pumped: each part takes its turn when it is told to, in the calling thread.

Nothing of what the parts do is written again here: their own loops run, for one turn each. What is replaced is who
calls them: the events that their threads wait on, and the pool's threads. The committer's thread is there and sleeps:
who submits a write alone leads its commit itself.
"""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Collection
from math import inf
from typing import Any
from uuid import uuid4

from django_durable.core import clock
from django_durable.store.claiming import Claim, Claimant
from django_durable.store.database import PrivateDatabase
from django_durable.worker.background import Background
from django_durable.worker.loops.base import LoopRunner
from django_durable.worker.loops.maintenance import BATCH, maintenance
from django_durable.worker.loops.reap import Reap
from django_durable.worker.pools import ThreadPool
from django_durable.worker.process import WorkerOptions, WorkerProcess
from django_durable.workflows.definition import Workflow

MOST_TURNS = 50
"""Attempts in a row: a scenario has fewer than ten."""


class PumpedWorker:
    """``loops`` names the classes of the maintenance that ticks in ``maintain``."""

    def __init__(self, loops: Collection[str], *, isolated: bool = False) -> None:
        self.process = WorkerProcess(uuid4(), WorkerOptions(concurrency=1, isolated=isolated, loops=bool(loops)))
        self._forget_limits()
        self._pool = _Pool(self.process)
        self._claimer_turn = _Turn(self.process._claimer, "tick")
        # No worker of ours waits: where there is nothing to do, the scenario moves the clock.
        self.process._claimer._longest_wait = 0.0
        db = PrivateDatabase()
        parts = maintenance(db, self.process._queue, self.process._who.queues, lambda word: None)
        for part in parts:
            if isinstance(part, Reap):
                # It has been there for a while.
                part._was_away = False
        self._loops = LoopRunner(db, [one for one in parts if type(one).__name__ in loops], BATCH)

    def _forget_limits(self) -> None:
        """As a worker whose code has none: else each look asks for what other workflows of the tests limit."""
        who = self.process._who
        self.process._who = Claimant(who.id, who.queues, who.workflows)
        self.process._claimer._who = self.process._claimer._all = self.process._who

    def begin(self) -> None:
        """Tell the database of the process."""
        assert self.process._register()

    def work(self) -> int:
        """Attempts until there is nothing to claim; how many there were."""
        for count in range(MOST_TURNS):
            if not self._attempt():
                return count
        raise AssertionError(f"{MOST_TURNS} attempts in a row, and there is always another one")

    def _attempt(self) -> bool:
        self._claim()
        done = False
        while self._pool.waiting:
            self._pool.work()
            done = True
        # Also where nothing was claimed: hints may be left from a claim that failed.
        self.tell()
        return done

    def _claim(self) -> None:
        claimer = self.process._claimer
        if self.process._queue.gives_hints and not self.process.options.isolated:
            # By the lists first, as in a worker whose next sweep is not due yet.
            claimer._next_look = inf
            self._claimer_turn.take()
            if self._pool.waiting:
                return
        claimer._next_look = 0.0
        self._claimer_turn.take()

    def tell(self) -> None:
        """What follows commits: hints, parents, signals, log."""
        notifier, announcer = self.process._aftermath._notifier, self.process._aftermath._announcer
        backgrounds = (notifier._prompt, notifier._patient, announcer)
        while not all(_perform_all(one) for one in backgrounds):
            pass

    def beat(self) -> None:
        """One beat of the heartbeat."""
        heartbeat = self.process._heartbeat
        heartbeat._stop = _Once()  # type: ignore[assignment]
        heartbeat._run()

    def maintain(self) -> None:
        """One tick of every loop, as if all were due, and a beat."""
        self.beat()
        for loop in self._loops._due:
            self._loops._due[loop] = clock.monotonic()
        self._loops.run_due()

    def end(self) -> None:
        """Give up its thread. Its connections are whose they were."""
        committer = self.process._committer
        committer._closing = True
        committer._calls.release()
        committer._thread.join(5)

    def release(self) -> None:
        """Ask every run to end at its next call, as a drain does."""
        self.process._slots.ask_to_release()


class _Pool(ThreadPool):
    """Attempts of the calling thread."""

    def __init__(self, process: WorkerProcess) -> None:
        super().__init__(1, process._outcomes)
        self.waiting: deque[tuple[Claim, Workflow[Any, Any]]] = deque()
        process._threads = self

    def start(self, claim: Claim, workflow: Workflow[Any, Any]) -> None:
        self._under_way.add(claim.lease)
        self.waiting.append((claim, workflow))

    def work(self) -> None:
        self._run(*self.waiting.popleft(), has_rested=False)


class _Turn:
    """Stands in for the event that stops a part's thread: one turn of its loop, and nothing is waited for."""

    def __init__(self, part: Any, verb: str) -> None:
        self._part = part
        self._is_over = False
        part._stop = self
        setattr(part, verb, self._ending(getattr(part, verb)))

    def _ending(self, verb: Callable[[], int]) -> Callable[[], int]:
        def one() -> int:
            try:
                return verb()
            finally:
                self._is_over = True

        return one

    def take(self) -> None:
        self._is_over = False
        self._part._run()

    def is_set(self) -> bool:
        return self._is_over

    def wait(self, timeout: float | None = None) -> bool:
        return self._is_over


class _Once:
    """The same for a loop that begins with the wait."""

    def __init__(self) -> None:
        self._waits = 0

    def wait(self, timeout: float | None = None) -> bool:
        self._waits += 1
        return self._waits > 1


def _perform_all(background: Background) -> bool:
    """Perform the tasks of a background thread that was never begun; False where there were any."""
    was_idle = True
    while True:
        try:
            task = background._tasks.get_nowait()
        except queue.Empty:
            return was_idle
        was_idle = False
        assert task is not None
        background._perform(task)
        background._tasks.task_done()
