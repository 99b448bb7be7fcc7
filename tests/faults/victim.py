"""The process that meets the faults: the scenario's script, in one thread, up to its end or to that of the process.

Who is not to die goes on to the next case, with a new worker, and with connections that stay.
"""

from __future__ import annotations

import faulthandler
import gc
import traceback
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any
from uuid import UUID

from django.db import Error, connection

from django_durable.client.handle import RunHandle
from django_durable.client.verbs import cancel_runs
from django_durable.core import clock
from django_durable.core.flow.stepping import CurrentStep
from django_durable.exceptions import DurableError
from django_durable.executor import atomic
from django_durable.queues.current import current_queue
from django_durable.worker import batch_writer
from django_durable.workflows.definition import Workflow
from tests.app import enumerated
from tests.faults.cases import Case
from tests.faults.control import Control
from tests.faults.links import KeptConnections, close_if_unusable
from tests.faults.points import Points
from tests.faults.pumped import PumpedWorker
from tests.faults.scenarios import EVENT, SCENARIOS, case_key
from tests.faults.striker import Striker

STUCK_SECONDS = 20.0
"""A case takes a tenth of a second: one that takes so long waits for something that does not come."""


class Played:
    """The stage of this process; it also watches the bodies of steps."""

    def __init__(self, case: Case, control: Control, points: Points, *, is_postgres: bool) -> None:
        self._control = control
        self._points = points
        self._scenario = SCENARIOS[case.scenario]
        self._cancels_in = self._scenario.body_to_cancel_in(is_postgres=is_postgres)
        self._key = case_key(clock.offset())
        points.is_counting = self._scenario.counts_at_once
        self.worker = PumpedWorker(self._scenario.loops, isolated=self._scenario.is_suspect)
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

    def crash(self, run_id: UUID) -> None:
        clock.set_offset(self._control.ask("crash", run_id))
        self._points.is_counting = True

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
