"""One worker process: what it is made of, and how it begins and ends."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import UUID

from django.db.utils import Error

from ..conf import durable_settings
from ..core import clock
from ..core.journal.outcomes import Outcome
from ..core.registry import limits
from ..exceptions import UnknownWorkflow
from ..executor.deadline import watchdog
from ..queues.current import current_queue
from ..store import workers
from ..store.claiming import Claim, Claimant
from ..store.database import PrivateDatabase
from ..workflows.registry import get_workflow, workflows
from .aftermath import Aftermath
from .claimer import Claimer
from .committer import Committer
from .heartbeat import Heartbeat
from .loops.base import LoopRunner
from .loops.maintenance import BATCH, maintenance
from .pools import LoopPool, Outcomes, ThreadPool
from .slots import Slots
from .suspects import SuspectClaimer

logger = logging.getLogger("django_durable.worker")

IDLE_LOOK_SECONDS = 0.05
"""How often a process that ends when there is nothing to do looks whether there is."""
LINGER_SECONDS, SHORT_LINGER_SECONDS = 30.0, 2.0
"""How long an isolated process waits for another suspect: where one process died others do, and to start it again may
take as long as the project takes to be imported. Short in a worker that is to end by itself."""
FLUSH_SECONDS = 3.0
"""How long a process that ends goes on telling of its commits."""


@dataclass(slots=True, frozen=True)
class WorkerOptions:
    """What ``durable_worker`` was told, as far as one process is concerned. Times are seconds."""

    queues: tuple[str, ...] = ("default",)
    concurrency: int = 32
    burst: bool = False
    max_seconds: float | None = None
    max_runs: int | None = None
    loops: bool = True
    isolated: bool = False
    health_file: Path | None = None

    @property
    def is_endless(self) -> bool:
        """Whether only an order to drain ends the worker."""
        return not self.burst and self.max_seconds is None and self.max_runs is None


class WorkerProcess:
    """``run`` works until it is told to drain, or until its options say that it is done."""

    def __init__(
        self, worker_id: UUID, options: WorkerOptions, tell: Callable[[str], None] = lambda word: None
    ) -> None:
        self.options = options
        self._tell = tell
        self._draining = threading.Event()
        self.gave_up = False
        """Whether it was a step that would not end that made this process drain."""
        self.is_done = False
        """Whether it ends because its options say so, and not because it was told to drain."""
        self._queue = current_queue()
        # Who is suspected of killing its process works on its own to the very end.
        self._slots = Slots(self._limit, may_overlap=not options.isolated)
        self._who = Claimant(worker_id, options.queues, tuple(workflows()), limits())
        self._db = PrivateDatabase()
        self._aftermath = Aftermath(self._queue, self._slots)
        self._committer = Committer(PrivateDatabase(), self._aftermath.committed, self._aftermath.in_doubt)
        self._outcomes = Outcomes(self._committer, self._ending, self._ended)
        self._threads = ThreadPool(self._limit, self._outcomes)
        self._loop: LoopPool | None = None
        self._heartbeat = Heartbeat(PrivateDatabase(), self._slots, self._beat)
        claimer = partial(SuspectClaimer, makes_room=options.is_endless) if options.isolated else Claimer
        self._claimer = claimer(
            PrivateDatabase(),
            self._queue,
            self._who,
            self._slots,
            self._limit,
            self._start,
            longest_wait=0.05 if options.burst else 60.0,
        )
        self._loops = LoopRunner(PrivateDatabase(), [], BATCH)

    @property
    def _limit(self) -> int:
        return 1 if self.options.isolated else self.options.concurrency

    # --- life ----------------------------------------------------------------------------------

    def drain(self) -> None:
        """Claim nothing more; let what runs come to its next step and hand it back. Safe to call again."""
        self._draining.set()

    def run(self) -> bool:
        """Work; whether every run was let go in time (else code still runs, or a claim is under way, and the process
        must die)."""
        if not self._register():
            return True
        self._begin()
        try:
            self._work()
        finally:
            is_empty = self._end()
        return is_empty

    def _register(self) -> bool:
        """Whether the database knows of this process; waits for one that is down. False: told to drain meanwhile."""
        pause = 0.1
        while not self._draining.is_set():
            try:
                self._tell_of_itself(self._db)
                # Before the first claim.
                self._heed_holds(self._db)
                return True
            except Error as error:
                logger.warning("the database is down or not migrated, trying again: %s", error)
            finally:
                # Not used again before the end, which may be days away: until then it would break unseen.
                self._db.close()
            self._draining.wait(pause)
            pause = min(pause * 2, 5.0)
        return False

    def _tell_of_itself(self, db: PrivateDatabase) -> None:
        version = durable_settings().VERSION or ""
        workers.register(db, self._who, concurrency=self._limit, is_isolated=self.options.isolated, version=version)

    def _begin(self) -> None:
        logger.info("started worker=%s queues=%s", self._who.id, ",".join(self._who.queues))
        watchdog.on_stuck = self._give_up
        self._aftermath.begin()
        self._heartbeat.begin()
        if self.options.loops and not self.options.isolated:
            loops_db = PrivateDatabase()
            loops = maintenance(loops_db, self._queue, self._who.queues, self._tell, lambda: self._claimer.held)
            self._loops = LoopRunner(loops_db, loops, BATCH)
            if self.options.burst:
                # What is due now, schedules too, belongs to the burst: it must be there before anybody looks for work.
                self._loops.run_due()
            self._loops.begin()
        self._claimer.begin()

    def _give_up(self, path: str) -> None:
        """Code that does not end when its time is over: only the end of the process ends it."""
        logger.error("step %r does not end although its time is over; the process drains and ends", path)
        self.gave_up = True
        self.drain()

    def _work(self) -> None:
        options = self.options
        ends = None if options.max_seconds is None else clock.monotonic() + options.max_seconds
        quiet = finished = 0
        longest_quiet = self._looks_until_quiet()
        while not self._draining.wait(IDLE_LOOK_SECONDS if options.burst or options.isolated else 0.5):
            if ends is not None and clock.monotonic() >= ends:
                break
            if options.max_runs is not None and self._slots.finished >= options.max_runs:
                break
            if options.burst or options.isolated:
                quiet, finished = (0 if self._slots.finished != finished else quiet), self._slots.finished
                if self._is_idle():
                    quiet += 1
                    if options.burst:
                        # A look that was under way may not have seen what the last run woke.
                        self._claimer.look_again()
                if quiet >= longest_quiet:
                    break
        else:
            return  # Told to drain.
        self.is_done = True

    def _looks_until_quiet(self) -> float:
        """After how many looks at an idle process, in a row, its work is done."""
        if self.options.burst:
            return 3
        return (LINGER_SECONDS if self.options.is_endless else SHORT_LINGER_SECONDS) / IDLE_LOOK_SECONDS

    def _is_idle(self) -> bool:
        return self._slots.used == 0 and self._aftermath.is_idle and self._claimer.is_idle.is_set()

    def _end(self) -> bool:
        # At once, since the claimer may still wait for Redis, and again for what it claimed meanwhile.
        self._slots.ask_to_release()
        logger.info("draining worker=%s runs=%d", self._who.id, self._slots.used)
        self._claimer.stop()
        self._slots.ask_to_release()
        is_empty = self._let_go()
        self._loops.stop()
        # Also where code still runs: what has been committed is not to wait for a sweep because of that.
        self._aftermath.flush(FLUSH_SECONDS)
        if is_empty:
            self._threads.close()
            if self._loop is not None:
                self._loop.close()
            self._aftermath.stop()
            self._committer.close()
            self._heartbeat.stop()
            self._sign_off()
        self._aftermath.tallies.flush(self._db)
        self._db.close()
        logger.info("stopped worker=%s runs=%d", self._who.id, self._slots.finished)
        return is_empty

    def _let_go(self) -> bool:
        """Whether every run was let go within the grace time, those of a claim too that the database was late with."""
        grace = durable_settings().SHUTDOWN_GRACE_SECONDS
        ends = clock.monotonic() + grace
        if not self._slots.wait_until_empty(grace):
            return False
        if not self._claimer.has_ended(max(0.0, ends - clock.monotonic())):
            logger.warning("a claim is still under way after the grace time")
            return False
        return self._slots.wait_until_empty(max(0.0, ends - clock.monotonic()))

    def _sign_off(self) -> None:
        try:
            workers.stop(self._db, self._who.id)
        except Error as error:
            logger.warning("could not tell that worker=%s has stopped: %s", self._who.id, error)
            self._db.close()

    # --- work ----------------------------------------------------------------------------------

    def _start(self, claims: Sequence[Claim]) -> None:
        for_loop = []
        for claim in claims:
            try:
                workflow = get_workflow(claim.workflow)
            except UnknownWorkflow:
                # Only what we know is claimed; a name that went since lapses and is blocked as unknown.
                self._slots.free(claim.lease)
                continue
            self._aftermath.started(claim)
            if workflow.is_async:
                for_loop.append((claim, workflow))
            else:
                self._threads.start(claim, workflow)
        if for_loop:
            if self._loop is None:
                self._loop = LoopPool(self._outcomes)
            self._loop.start(for_loop)

    def _ending(self, claim: Claim) -> None:
        self._slots.end(claim.lease)

    def _ended(self, claim: Claim, outcome: Outcome) -> None:
        self._slots.free(claim.lease)
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("ended run=%s workflow=%s as=%s", claim.run_id, claim.workflow, type(outcome).__name__)

    def _beat(self, db: PrivateDatabase) -> None:
        self._heed_holds(db)
        if self.options.health_file is not None:
            self.options.health_file.touch()
        self._aftermath.tallies.flush(db)

    def _heed_holds(self, db: PrivateDatabase) -> None:
        if (held := workers.beat(db, self._who.id)) is None:
            # It was frozen for so long that its row was deleted, or a failover has lost that. It works on all the same.
            self._tell_of_itself(db)
            logger.warning("the database has forgotten worker=%s; registered again", self._who.id)
            held = workers.beat(db, self._who.id)
        if held is not None:
            self._claimer.heed(held)
