"""The supervisor: starts worker processes, replaces those that die, and lets them drain.

It runs none of the user's workflows, so that nothing these do can take it down.
"""

from __future__ import annotations

import logging
import os
import re
import selectors
import signal
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from math import ceil, inf
from typing import Any

from django.db.utils import Error

from ..core.payloads.surviving import warn
from ..store import workers
from ..store.database import PrivateDatabase
from .affinity import Cpus
from .child import DONE, DONE_BUSY, DONE_GAVE_UP
from .forking import fork, what_hinders
from .spawning import Child, Process, Told, executing, spawn
from .takeover import Takeover

logger = logging.getLogger("django_durable.worker")

QUICK_DEATH_SECONDS = 5.0
LONGEST_RESTART_PAUSE, MOST_DOUBLINGS = 30.0, 5
DEATH_SECONDS = 2.0
"""How long we wait to see that a child is dead that was killed."""
FEWEST_ISOLATED = 2
"""Isolated processes that there may be side by side at least: one may be at a step that takes long, or die."""
SUSPECTS_FOR_EACH = 8
"""So many suspects are worth a process. Each goes through several a second where steps are short, and to start one that
is executed takes a core for about a second, which what has just died needs as well."""
STANDBY_SECONDS = 3.0
"""So long nobody else has been started when one is that stands by: it takes no core from who is needed now."""
SUSPECTS = re.compile(rb"suspects (\d+)")


class Supervisor:
    """``run`` returns when all children have ended: after a drain, or because their options say so.

    A child is a copy of this process in which ``be_child`` is called, where that is given and a copy would do; else
    ``command`` is executed. Where it has to be, and with ``has_standby``, one more stands by: whoever dies leaves runs
    that have to wait for an isolated one, and to start that takes as long as the project takes to be imported, on a
    machine that has just lost something.

    Each child but those that are isolated, which work on one run at a time, is pinned to one of ``cpus``, where given.
    """

    def __init__(
        self,
        command: Sequence[str],
        processes: int,
        *,
        has_standby: bool = False,
        be_child: Callable[[Told], object] | None = None,
        cpus: Cpus | None = None,
    ) -> None:
        self._execute = executing(command)
        self._be_child = be_child
        self._hindrance: str | None = None
        """What was in the way of a copy when the last child was started."""
        self._processes = processes
        self._cpus = cpus
        if cpus is not None and processes > cpus.count:
            logger.warning("%d processes are pinned to %d CPUs, which is uneven", processes, cpus.count)
        self._children: list[Child] = []
        self._signals: list[int] = []
        self._is_spawning = False
        self._stopping = False
        self._deaths: dict[int | None, int] = {}
        self._start_at: dict[int | None, float] = dict.fromkeys(range(processes), 0.0)
        self._has_standby = has_standby
        self._standby_at = inf
        """When one is to be started that stands by; infinite where there is one, or is to be none."""
        if be_child is None:
            self._plan_standby()
        self._standby_deaths = 0
        """How many of them have died one after the other soon after their start."""
        self._most_isolated = max(processes, FEWEST_ISOLATED)
        self._suspects = 0
        """How many wait for a process of their own, as far as anybody has told."""
        self._db = PrivateDatabase()
        """Closed after each use: days lie between two, in which a restart or a firewall ends what idles."""
        self._takeover = Takeover(self._db)
        self._next_warning = 0.0
        self._reload = threading.Event()
        self._selector = selectors.DefaultSelector()
        self._alarm_read, self._alarm_write = os.pipe()
        os.set_blocking(self._alarm_write, False)

    def run(self) -> None:
        """Supervise until there is nobody left to supervise."""
        self._selector.register(self._alarm_read, selectors.EVENT_READ)
        signal.set_wakeup_fd(self._alarm_write, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        try:
            while self._is_needed():
                self._start_due()
                self._listen()
                self._heed_signals()
                self._bury()
                self._takeover.try_again()
                if self._reload.is_set():
                    self._restart_all()
        finally:
            self._kill_all()
            self._db.close()

    def _is_needed(self) -> bool:
        return bool(self._children or self._start_at or self._suspects or self._takeover.is_pending)

    def reload(self) -> None:
        """Replace every child by a fresh one, each after it has drained. May be called from any thread."""
        self._reload.set()
        self._rouse()

    def _rouse(self) -> None:
        os.write(self._alarm_write, b"\0")

    # --- signals -------------------------------------------------------------------------------

    def _on_signal(self, number: int, frame: Any) -> None:
        """Only count them. What this interrupts may be half done: a spawn whose child is in no list yet, a drain."""
        self._signals.append(number)
        if not self._is_spawning:
            self._heed_second_signal()

    def _heed_second_signal(self) -> None:
        """End at once, and every child with us: one that was left would drain by itself, for as long as it may."""
        if len(self._signals) < 2:
            return
        self._kill_all()
        try:
            logger.warning("second signal: ending at once")
        finally:
            # This may have interrupted a line of the log, and a stream that is being written to refuses another one.
            os._exit(128 + self._signals[1])

    def _heed_signals(self) -> None:
        """Drain everybody, again in every round: a signal during a spawn precedes the child that it is to drain."""
        if not self._signals:
            return
        if not self._stopping:
            self._stopping = True
            logger.info("draining: %s", signal.Signals(self._signals[0]).name)
        self._start_at.clear()
        self._standby_at = inf
        self._suspects = 0
        self._drain_all()

    # --- children ------------------------------------------------------------------------------

    def _start_due(self) -> None:
        now = time.monotonic()
        for place in [place for place, due in self._start_at.items() if due <= now]:
            if self._signals:
                # Not yet heeded: the signal's byte ends the select that follows at once.
                return
            del self._start_at[place]
            if place is not None or not self._call_standby():
                self._start(place)
        self._start_isolated()
        if not self._signals and self._standby_at <= now:
            self._start_standby()

    def _start_isolated(self) -> None:
        """As many as are wanted beside those that have their hands full: a step may take hours."""
        # Where none can be started, one that stands by is there all the same.
        if not self._suspects or (None in self._start_at and not self._call_standby()):
            return
        wanted, self._suspects = ceil(self._suspects / SUSPECTS_FOR_EACH), 0
        isolated = [child for child in self._children if child.place is None and not child.is_standby]
        free = sum(not child.is_draining for child in isolated) - self._count_busy(isolated)
        for _ in range(min(wanted - free, self._most_isolated - len(isolated))):
            if self._signals or None in self._start_at:
                return
            if not self._call_standby():
                self._start(None)

    def _call_standby(self) -> bool:
        for child in self._children:
            if child.is_standby and not child.is_draining:
                try:
                    child.call()
                except OSError:
                    # It is dead, and buried in this round.
                    return False
                self._standby_at = time.monotonic() + STANDBY_SECONDS
                return True
        return False

    def _start_standby(self) -> None:
        self._standby_at = inf
        self._start(None, is_standby=True)

    def _count_busy(self, children: Sequence[Child]) -> int:
        working = [child.id for child in children if not child.is_draining]
        try:
            return workers.count_busy(self._db, working) if working else 0
        except Error as error:
            # They count as free; whoever looks for suspects tells of them again.
            warn(logger, "could not ask what %d isolated processes do: %s", len(working), error)
            return 0
        finally:
            self._db.close()

    def _start(self, place: int | None, *, is_standby: bool = False) -> None:
        self._is_spawning = True
        try:
            self._children.append(self._spawn(place, is_standby=is_standby))
            if place is None:
                # Deaths of these are not counted, only starts that failed.
                self._deaths[None] = 0
        except OSError as error:
            self._put_off(place, error, is_standby=is_standby)
        finally:
            self._is_spawning = False
        if not is_standby and self._standby_at < inf:
            self._standby_at = max(self._standby_at, time.monotonic() + STANDBY_SECONDS)
        # Until now the child was in no list: a second signal in that time has to be made up for.
        self._heed_second_signal()

    def _begin(self, told: Told, not_its: Sequence[int]) -> Process:
        if self._be_child is None:
            return self._execute(told, not_its)
        # Asked each time: it may come later, as with the first error that is logged to somebody far away.
        hindrance = what_hinders({told["orders"], told["reports"], *not_its, *self._descriptors()})
        if hindrance not in (None, self._hindrance):
            logger.info("worker processes are executed, not copied: %s", hindrance)
        self._hindrance = hindrance
        if hindrance is not None:
            if not told["stands_by"]:
                self._plan_standby()
            return self._execute(told, not_its)
        return fork(partial(self._become, self._be_child, told, not_its))

    def _plan_standby(self) -> None:
        if self._has_standby and self._standby_at == inf and not any(child.is_standby for child in self._children):
            self._standby_at = time.monotonic() + STANDBY_SECONDS

    def _descriptors(self) -> list[int]:
        """What is open in this process for itself."""
        pipes = [end for child in self._children for end in child.pipes]
        return [self._alarm_read, self._alarm_write, self._selector.fileno(), *pipes]

    def _become(self, be_child: Callable[[Told], object], told: Told, not_its: Sequence[int]) -> None:
        """In the copy. What is open here is not its: a pipe of orders ends with the last who holds its end."""
        for end in (*not_its, self._alarm_read, self._alarm_write):
            os.close(end)
        for child in self._children:
            child.close()
        self._selector.close()
        be_child(told)

    def _spawn(self, place: int | None, *, is_standby: bool = False) -> Child:
        # Asked each time: those that we may use may have become others.
        cpu = None if self._cpus is None or place is None else self._cpus.of(place)
        child = spawn(self._begin, place, is_standby=is_standby, cpu=cpu)
        try:
            self._selector.register(child.reports, selectors.EVENT_READ)
        except OSError:
            # In no list it would live on beside the one that takes its place.
            child.process.kill()
            child.process.wait()
            child.close()
            raise
        return child

    def _put_off(self, place: int | None, error: OSError, *, is_standby: bool) -> None:
        """The machine is short of something, or a deploy has taken the program away: no reason to end the others."""
        now = time.monotonic()
        if is_standby:
            self._standby_at = now + LONGEST_RESTART_PAUSE
        else:
            self._start_at[place] = now + self._longer_pause(place)
        if now >= self._next_warning:
            self._next_warning = now + LONGEST_RESTART_PAUSE
            warn(logger, "could not start a worker process, trying again: %s", error)

    def _listen(self) -> None:
        wait = min([due - time.monotonic() for due in self._start_at.values()] + [1.0])
        for key, _ in self._selector.select(max(0.0, wait)):
            if key.fd == self._alarm_read:
                os.read(self._alarm_read, 1024)
                continue
            words = os.read(key.fd, 1024)
            if not words:
                self._selector.unregister(key.fd)
            elif not self._stopping:
                self._suspects = max([self._suspects, *map(int, SUSPECTS.findall(words))])

    def _bury(self) -> None:
        for child in [child for child in self._children if child.process.poll() is not None]:
            self._children.remove(child)
            self._forget_pipes(child)
            if child.is_standby:
                self._bury_standby(child)
                continue
            suspects = self._takeover.of(child)
            if child.was_called and not child.is_draining and not self._is_done(child):
                # It may have died before it came to what it was called for.
                suspects = max(suspects, 1)
            if not self._stopping:
                self._suspects += suspects
            if not self._stopping and child.place is not None and not self._is_done(child):
                self._start_at[child.place] = time.monotonic() + self._pause(child)

    def _bury_standby(self, child: Child) -> None:
        """It had nothing, so that there is nothing to take over."""
        now = time.monotonic()
        if not child.is_draining:
            logger.warning("what stood by has ended pid=%d exit=%d", child.process.pid, child.process.returncode)
        if not self._stopping:
            is_quick = not child.is_draining and now - child.started <= QUICK_DEATH_SECONDS
            self._standby_deaths = self._standby_deaths + 1 if is_quick else 0
            # A single one may have been killed; one that dies at each start would do nothing but take a core.
            doublings = min(max(0, self._standby_deaths - 1), MOST_DOUBLINGS)
            self._standby_at = now + min(STANDBY_SECONDS * 2**doublings, LONGEST_RESTART_PAUSE)

    def _forget_pipes(self, child: Child) -> None:
        if child.reports in self._selector.get_map():
            self._selector.unregister(child.reports)
        child.close()

    def _is_done(self, child: Child) -> bool:
        """Whether its options ended it. Another one would begin to count its seconds and runs anew."""
        return child.process.returncode in (DONE, DONE_BUSY, DONE_GAVE_UP)

    def _pause(self, child: Child) -> float:
        """A child that dies again and again soon after its start comes back more and more slowly."""
        if child.is_draining or time.monotonic() - child.started > QUICK_DEATH_SECONDS:
            self._deaths[child.place] = 0
            return 0.0
        return self._longer_pause(child.place)

    def _longer_pause(self, place: int | None) -> float:
        self._deaths[place] = count = self._deaths.get(place, 0) + 1
        return float(min(2 ** (count - 1) - 1, LONGEST_RESTART_PAUSE))

    def _restart_all(self) -> None:
        self._reload.clear()
        self._drain_all()

    def _drain_all(self) -> None:
        for child in self._children:
            child.drain()
            if child.is_standby:
                # It holds nothing, and may be about to import the project for as long as that takes.
                child.process.kill()

    def _kill_all(self) -> None:
        """Not with ``wait``: a signal handler would wait for the lock of a ``poll`` that it has interrupted."""
        for child in self._children:
            child.process.kill()
        ends = time.monotonic() + DEATH_SECONDS
        while any(child.process.poll() is None for child in self._children) and time.monotonic() < ends:
            time.sleep(0.005)
