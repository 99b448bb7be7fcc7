"""The process that meets the faults: the scenario's script, in one thread, up to its end or to that of the process.

Who is not to die goes on to the next case, with a new worker, and with connections that stay.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any
from uuid import UUID

from django.db import Error, connection
from django.db.backends.base.base import BaseDatabaseWrapper

from django_durable.client.handle import RunHandle
from django_durable.client.verbs import cancel_runs
from django_durable.core import clock
from django_durable.core.flow.stepping import CurrentStep
from django_durable.exceptions import DurableError
from django_durable.executor import atomic
from django_durable.queues.current import current_queue
from django_durable.store import database
from django_durable.worker import batch_writer
from django_durable.workflows.definition import Workflow
from tests.app import enumerated
from tests.faults.cases import Case
from tests.faults.points import Action, Points
from tests.faults.pumped import PumpedWorker
from tests.faults.scenarios import EVENT, SCENARIOS, case_key

STUCK_SECONDS = 20.0
"""A case takes a tenth of a second: one that takes so long waits for something that does not come."""
DIED = 137


class Control:
    """The line to the lane, and through it to the rescue."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def ask(self, verb: str, *arguments: Any) -> Any:
        """Have the rescue do it; its answer."""
        self._pipe.send((verb, arguments, clock.offset()))
        return self._pipe.recv()

    def tell(self, what: str, value: Any) -> None:
        """For the report; nobody answers."""
        self._pipe.send(("told", (what, value), clock.offset()))


class Striker:
    """Makes the faults of this process."""

    def __init__(self, control: Control, *, is_postgres: bool) -> None:
        self._control = control
        self._is_postgres = is_postgres
        self.points: Points

    def __call__(
        self,
        action: Action,
        label: str,
        do: Callable[[], Any],
        link: BaseDatabaseWrapper | None,
        error: type[Exception],
    ) -> Any:
        if action == Action.AFTER:
            value = do()
            self._note(action, label)
            self._fail(label, link, error)
            return value
        self._note(action, label)
        match action:
            case Action.DIE:
                os._exit(DIED)
            case Action.BEFORE:
                self._fail(label, link, error)
            case Action.TERMINATE:
                self._control.ask("terminate", self._sessions(link))
            case Action.STALL:
                self._stall()
        return do()

    def _note(self, action: Action, label: str) -> None:
        self._control.tell("struck", self.points.passed)
        self._control.ask("note_fault", str(action), label)

    def _fail(self, label: str, link: BaseDatabaseWrapper | None, error: type[Exception]) -> None:
        if link is not None:
            # As where the server has said it: the wrapper around the statement keeps this in mind.
            link.errors_occurred = True
        raise error(f"made by the enumeration at {label!r}")

    def _sessions(self, link: BaseDatabaseWrapper | None) -> list[int]:
        links = [link] if link is not None else self.points.links
        return [one.connection.info.backend_pid for one in links if _is_open(one)]

    def _stall(self) -> None:
        inside = [link for link in self.points.links if is_in_transaction(link)]
        if not self._is_postgres:
            # Who stands still with the one write lock keeps everybody out: time passes, and nobody takes over.
            offset = self._control.ask("pass_time" if inside else "take_over", [])
        else:
            offset = self._control.ask("take_over", [pid for link in inside if (pid := _run_out(link))])
        clock.set_offset(offset)


def is_in_transaction(link: BaseDatabaseWrapper) -> bool:
    """Also in one that has failed."""
    if not _is_open(link):
        return False
    if link.vendor == "sqlite":
        return bool(link.connection.in_transaction)
    return bool(link.connection.info.transaction_status.name != "IDLE")


def close_if_unusable(link: BaseDatabaseWrapper) -> None:
    """What the next case is to find is open and at rest, or closed."""
    if link.connection is not None and (is_in_transaction(link) or not link.is_usable()):
        link.close()


def _is_open(link: BaseDatabaseWrapper) -> bool:
    return link.connection is not None and not getattr(link.connection, "closed", False)


def _run_out(link: BaseDatabaseWrapper) -> int | None:
    """Let the limit that the engine has set to its idle transaction be reached by now; the session that the server
    then ends, None where no limit was set. The clock that tests move is not the server's own."""
    limit = "idle_in_transaction_session_timeout"
    found = link.connection.execute(
        f"SELECT set_config('{limit}', '1ms', true) FROM (SELECT 1 WHERE current_setting('{limit}') <> '0') AS limited"
    ).fetchone()
    return link.connection.info.backend_pid if found else None


class Played:
    """The stage of this process; it also watches the bodies of steps."""

    def __init__(self, case: Case, control: Control, points: Points, *, is_postgres: bool) -> None:
        self._control = control
        self._points = points
        self._scenario = SCENARIOS[case.scenario]
        self._cancels_in = self._scenario.body_to_cancel_in(is_postgres=is_postgres)
        self._key = case_key(clock.offset())
        # Where there is a cancellation, points are counted from that on.
        points.is_counting = not self._scenario.is_cancelled
        self.worker = PumpedWorker(self._scenario.loops)
        self.worker.begin()

    def play(self) -> None:
        self._scenario.script(self)

    def start(self, workflow: Workflow[Any, Any], *, once: bool = False) -> UUID:
        started: RunHandle[Any] = (workflow.using(idempotency_key=self._key) if once else workflow).enqueue()
        self._control.ask("note", "started", str(started.id))
        return started.id

    def send(self, run_id: UUID) -> None:
        RunHandle[Any](run_id).send_event(EVENT, EVENT, idempotency_key="once")

    def cancel(self, run_id: UUID) -> None:
        self._points.is_counting = True
        if cancel_runs([run_id]):
            self._control.ask("note", "cancelled", str(run_id))

    def pass_time(self, seconds: float) -> None:
        clock.set_offset(clock.offset() + timedelta(seconds=seconds))

    # --- watching ------------------------------------------------------------------------------

    def begins(self, step: CurrentStep) -> None:
        if step.path == self._cancels_in:
            self._points.is_counting = True
        self._control.ask("begins", step.run_id, step.path, step.attempt, step.lease.token.hex)
        if step.path == self._scenario.beats_in:
            self.worker.beat()
        if step.path == self._scenario.releases_in and step.attempt == 1:
            self.worker.release()

    def ends(self, step: CurrentStep, value: list[Any]) -> None:
        self._control.ask("ends", step.run_id, step.path, step.lease.token.hex, value)


class Victim:
    """Plays what comes through the pipe, until that ends."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._is_postgres = connection.vendor == "postgresql"
        self._control = Control(pipe)
        striker = Striker(self._control, is_postgres=self._is_postgres)
        self._points = striker.points = Points(striker)
        self._points.install(is_postgres=self._is_postgres)
        self._kept = KeptConnections()
        # Nothing but the fault is away, and that is over at once.
        batch_writer.FIRST_BACK_OFF = atomic.AWAY_PAUSE = 0.001
        # What was imported stays, and no victim is long-lived.
        gc.disable()

    def serve(self) -> None:
        while True:
            try:
                case, offset = self._pipe.recv()
            except EOFError:
                return
            faulthandler.dump_traceback_later(STUCK_SECONDS, exit=True)
            clock.set_offset(offset)
            self._play(case)
            faulthandler.cancel_dump_traceback_later()
            self._control.tell("played", self._points.passed)

    def _play(self, case: Case) -> None:
        current_queue.cache_clear()
        self._points.begin(case.action, case.k)
        played = None
        try:
            played = Played(case, self._control, self._points, is_postgres=self._is_postgres)
            enumerated.watcher = played  # type: ignore[assignment]
            played.play()
        except Exception as error:
            # A client hears of the fault that its own call has met; nothing else may come out here.
            if not (self._points.has_struck and isinstance(error, Error | DurableError)):
                self._control.tell("broke", traceback.format_exc())
        self._points.is_counting = False
        if played is not None:
            played.worker.end()
        self._kept.take_back()
        close_if_unusable(connection)


class KeptConnections:
    """The engine's private connections of this process: of a case that is over the next one takes them up. To open
    them anew takes as long as all else that a case does."""

    def __init__(self) -> None:
        self._free: list[BaseDatabaseWrapper] = []
        self._taken: list[BaseDatabaseWrapper] = []
        self._copy = database._private_copy
        database._private_copy = self._take

    def _take(self, original: BaseDatabaseWrapper) -> BaseDatabaseWrapper:
        self._taken.append(self._free.pop() if self._free else self._copy(original))
        return self._taken[-1]

    def take_back(self) -> None:
        """Nobody uses those any more that were taken."""
        for link in reversed(self._taken):
            close_if_unusable(link)
        self._free += reversed(self._taken)
        self._taken.clear()
