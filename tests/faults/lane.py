"""One after the other: each case is a forked victim, beside the rescue that stays."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

from django.db import connections

from tests.faults.cases import Case, Report
from tests.faults.forks import fork
from tests.faults.kinds import Action
from tests.faults.rescue import Rescue
from tests.faults.scenarios import SCENARIOS
from tests.faults.striker import DIED
from tests.faults.victim import STUCK_SECONDS, Victim

MINUTE = 10
"""Of the hour, by the clock of every case: schedules of the hour are far from due, whatever time it is."""

PLAYS_MOST = 50
"""Cases that one process plays: it collects no garbage."""
TOGETHER = 20
"""Cases whose rows are looked at together: the invariants take as long for one run as for twenty. Not those with
schedules, which are all looked at by everybody's loops."""


def nothing() -> None:
    """What is planted as a rule."""


class RescueFailed(Exception):
    """Something in the rescue itself."""


class _End(Enum):
    """How a victim leaves a case."""

    PLAYED = auto()
    GONE = auto()
    STUCK = auto()


@dataclass
class _Victim:
    """A process that plays, and how many cases it has."""

    pid: int
    pipe: Connection
    plays: int = 0

    def end(self, *, is_gone: bool = False) -> int:
        """End it, unless it has ended by itself; its status."""
        self.pipe.close()
        if not is_gone:
            os.kill(self.pid, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class Lane:
    """Runs cases on a database of its own; of this process no connection may be open. ``plant`` is called in the
    rescue and in every victim: it makes a fault of the engine's, to be found."""

    def __init__(self, folder: Path, plant: Callable[[], None] = nothing) -> None:
        self._folder = folder
        self._plant = plant
        self._log = folder / "log"
        self._rescue: Connection
        self._rescue_pid = 0
        self._victim: _Victim | None = None
        self._offset = timedelta(0)
        """By how much the clock is moved by now."""
        self._reports: list[Report] = []
        """Of the cases whose rows are still there."""

    def __enter__(self) -> Self:
        connections.close_all()
        # Its thread does not come along into a fork, where nobody could set another one.
        faulthandler.cancel_dump_traceback_later()
        ours, theirs = Pipe()
        self._rescue_pid = fork(lambda: self._be_rescue(ours, theirs))
        theirs.close()
        self._rescue = ours
        # Once for nothing: Redis learns the engine's script, and the tables are emptied.
        self.run(Case("handed-back"))
        self.inspect()
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._victim is not None:
            self._victim.end()
        self._rescue.close()
        os.waitpid(self._rescue_pid, 0)

    def _be_rescue(self, ours: Connection, theirs: Connection) -> None:
        ours.close()
        self._redirect()
        self._plant()
        Rescue(self._folder).serve(theirs)

    # --- a case --------------------------------------------------------------------------------

    def run(self, case: Case) -> Report:
        """Play it, finish it, check it; the invariants of the tables are looked at in ``inspect``."""
        report = Report(case)
        if self._log.exists():
            os.truncate(self._log, 0)
        self._offset += _to_the_minute(self._offset)
        self._reports.append(report)
        try:
            self._ask("reset", case.scenario)
            self._play(case, report)
            if case.action is None and not report.problems and not self._ask("is_over"):
                report.problems.append("untouched, the scenario does not come to its end")
            report.problems += self._ask("finish", report.label, case.action)
        except RescueFailed as error:
            report.problems.append(str(error))
        if report.problems and self._log.exists():
            report.log = self._log.read_text(errors="replace")
        # What is wrong with one case must not be seen in the next.
        most = 1 if SCENARIOS[case.scenario].is_scheduled else TOGETHER
        if report.problems or len(self._reports) >= most:
            self.inspect()
        return report

    def inspect(self) -> None:
        """Look at the invariants, in all that the cases since the last time have left, and empty the tables."""
        for number, problem in self._ask("inspect"):
            self._reports[number].problems.append(problem)
        self._reports.clear()

    def _play(self, case: Case, report: Report) -> None:
        victim = self._victim or self._new_victim()
        self._victim = None
        victim.pipe.send((case, self._offset))
        victim.plays += 1
        try:
            end = self._relay(victim.pipe, report)
        except RescueFailed:
            victim.end()
            raise
        # Whoever has met what he should not have is no measure for others.
        if end is _End.PLAYED and not report.problems and victim.plays < PLAYS_MOST:
            self._victim = victim
            return
        status = victim.end(is_gone=end is _End.GONE)
        if case.action == Action.DIE and status != DIED:
            report.problems.append(f"the victim was to die at its point, and ended with {status}")

    def _new_victim(self) -> _Victim:
        ours, theirs = Pipe()
        pid = fork(lambda: self._be_victim(ours, theirs))
        theirs.close()
        return _Victim(pid, ours)

    def _be_victim(self, ours: Connection, theirs: Connection) -> None:
        ours.close()
        self._redirect()
        self._plant()
        Victim(theirs).serve()

    def _redirect(self) -> None:
        """What the engine says, and what Python says of a process that is stuck."""
        log = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.dup2(log, sys.stderr.fileno())
        os.close(log)

    def _relay(self, victim: Connection, report: Report) -> _End:
        """Hand the victim's questions to the rescue until its script, or it itself, has come to an end."""
        while victim.poll(STUCK_SECONDS + 5):
            try:
                verb, arguments, self._offset = victim.recv()
            except EOFError:
                if report.case.action != Action.DIE:
                    report.problems.append("the victim has ended, by itself or since it was stuck")
                return _End.GONE
            if verb != "told":
                victim.send(self._ask(verb, *arguments))
                continue
            what, value = arguments
            if what == "broke":
                report.problems.append(f"the victim broke: {value}")
            elif what == "struck":
                report.points = value
            else:
                report.points = report.points or value
                return _End.PLAYED
        report.problems.append("the victim is stuck")
        return _End.STUCK

    def _ask(self, verb: str, *arguments: Any) -> Any:
        self._rescue.send((verb, arguments, self._offset))
        value, self._offset, failure = self._rescue.recv()
        if failure:
            raise RescueFailed(f"the rescue could not {verb}:\n{failure}")
        return value


def _to_the_minute(offset: timedelta) -> timedelta:
    """From a time that is moved by ``offset`` to the minute in which cases begin. Time never goes back: what stays from
    case to case would wait for what it has planned."""
    now = datetime.now(UTC) + offset
    minute = now.replace(minute=MINUTE, second=0, microsecond=0)
    return (minute if minute > now else minute + timedelta(hours=1)) - now
