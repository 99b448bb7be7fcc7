"""What is worked on while faults are made: a script for the worker that meets them, and how it has to end.

The same scenarios with a cancellation in the middle count their points from that on: those before it are the same. So
does the one whose run crashes, from its last crash but one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Protocol
from uuid import UUID

from django_durable.conf import durable_settings
from django_durable.core.journal.states import Status
from django_durable.workflows.definition import Workflow
from tests.app import enumerated
from tests.faults.pumped import PumpedWorker

Values = Mapping[str, Any]
"""What is journaled, by path."""

USUAL = ("Reap", "Sweep", "Promote", "Refill")
FIRING = (*USUAL, "Synchronise", "Fire")
FAMILY = (*USUAL, "Unwanted")
DUE_SECONDS = 60.0
"""After so long the schedule of the scenario is due."""
EVENT = "go"


def case_key(began: timedelta) -> str:
    """A name of its own for what a case makes: by when it began, on the clock that only goes on."""
    return f"case of {began}"


class Stage(Protocol):
    """Where a script plays: the worker, its clients and the clock of one process."""

    worker: PumpedWorker

    def start(self, workflow: Workflow[Any, Any], *, once: bool = False) -> UUID: ...

    def send(self, run_id: UUID) -> None: ...

    def cancel(self, run_id: UUID) -> None: ...

    def crash(self, run_id: UUID) -> None: ...

    def pass_time(self, seconds: float) -> None: ...


@dataclass(frozen=True)
class Scenario:
    """``paths`` are those of all runs once they are over, ``result`` what the first run returns then.

    ``cancels_in``: the step in whose body the outside cancels the run (``cancels_in_sqlite`` where there another
    process cannot write during that body); ``beats_in`` and ``releases_in``: where the worker's heartbeat comes, and
    where it is asked to hand back.
    """

    name: str
    workflow: str
    script: Callable[[Stage], None]
    paths: frozenset[str]
    result: Callable[[Values], Any] = lambda values: None
    ends_as: Status = Status.SUCCEEDED
    loops: tuple[str, ...] = USUAL
    is_keyed: bool = False
    """Whether its start has an idempotency key: whoever is not answered starts it again."""
    is_scheduled: bool = False
    awaits_event: bool = False
    cancels_in: str = ""
    cancels_in_sqlite: str = ""
    cancels_waiting: bool = False
    """Whether the script itself cancels, while the run waits."""
    beats_in: str = ""
    releases_in: str = ""
    is_suspect: bool = False
    """Whether the worker is alone with a run that has killed all the processes it may: with one more it ends blocked.
    The script makes it such a run."""
    effects: Mapping[str, str] = field(default_factory=dict)
    """The atomic steps, by path: the counter that they count up."""

    @property
    def is_cancelled(self) -> bool:
        return bool(self.cancels_in or self.cancels_waiting)

    @property
    def counts_at_once(self) -> bool:
        """Whether points are counted from the start of the script on, and not from what is done to its run."""
        return not (self.is_cancelled or self.is_suspect)

    def body_to_cancel_in(self, *, is_postgres: bool) -> str:
        return self.cancels_in if is_postgres or not self.cancels_in_sqlite else self.cancels_in_sqlite


# --- scripts ---------------------------------------------------------------------------------


def _plain(stage: Stage) -> None:
    stage.start(enumerated.plain, once=True)
    stage.worker.maintain()
    stage.worker.work()
    stage.worker.maintain()


def _handed_back(stage: Stage) -> None:
    stage.start(enumerated.plain)
    stage.worker.work()


def _counting(stage: Stage) -> None:
    stage.start(enumerated.counting)
    stage.worker.work()


def _sleeping(stage: Stage) -> None:
    run_id = stage.start(enumerated.sleeping)
    stage.worker.work()
    stage.pass_time(enumerated.NAP.total_seconds() + 1)
    stage.worker.maintain()
    stage.worker.work()
    stage.send(run_id)
    stage.worker.work()


def _cancelled_asleep(stage: Stage) -> None:
    run_id = stage.start(enumerated.sleeping)
    stage.worker.work()
    stage.pass_time(enumerated.NAP.total_seconds() + 1)
    stage.worker.work()
    stage.cancel(run_id)
    stage.worker.work()


def _family(stage: Stage) -> None:
    stage.start(enumerated.outer)
    stage.worker.work()
    stage.worker.maintain()


def _undone(stage: Stage) -> None:
    stage.start(enumerated.undone)
    stage.worker.work()


def _failing(stage: Stage) -> None:
    stage.start(enumerated.failing)
    stage.worker.work()


def _crashing(stage: Stage) -> None:
    stage.crash(stage.start(enumerated.plain))
    stage.worker.maintain()
    # SQLite's reaper has to see the lapse twice.
    stage.pass_time(durable_settings().HEARTBEAT_SECONDS)
    stage.worker.maintain()
    stage.worker.work()


def _fired(stage: Stage) -> None:
    stage.pass_time(DUE_SECONDS + 1)
    stage.worker.maintain()
    stage.worker.work()


# --- all of them -----------------------------------------------------------------------------

PLAIN = Scenario(
    "plain",
    enumerated.plain.name,
    _plain,
    frozenset({"one", "two", "three"}),
    lambda values: [values["one"], values["two"], values["three"]],
    is_keyed=True,
    beats_in="two",
)
HANDED_BACK = replace(PLAIN, name="handed-back", script=_handed_back, is_keyed=False, beats_in="", releases_in="two")
ATOMIC = Scenario(
    "atomic",
    enumerated.counting.name,
    _counting,
    frozenset({"one", "count", "two"}),
    lambda values: [values["one"], values["count"], values["two"]],
    effects={"count": enumerated.COUNTED},
)
SLEEPING = Scenario(
    "sleep-and-event",
    enumerated.sleeping.name,
    _sleeping,
    frozenset({"one", "nap", "go", "two"}),
    lambda values: [values["one"], EVENT, values["two"]],
    awaits_event=True,
)
CHILD = Scenario(
    "child",
    enumerated.outer.name,
    _family,
    frozenset({"one", "child", "inside", "two"}),
    lambda values: [values["one"], values["inside"], values["two"]],
    loops=FAMILY,
)
COMPENSATION = Scenario(
    "compensation",
    enumerated.undone.name,
    _undone,
    frozenset({"reserve", "charge", "ship", "charge%undo", "reserve%undo"}),
    ends_as=Status.FAILED,
)
FAILING = Scenario(
    "failing",
    enumerated.failing.name,
    _failing,
    frozenset({"one", "ship", "%on_failure"}),
    ends_as=Status.FAILED,
)
CRASHING = replace(PLAIN, name="crashing", script=_crashing, is_keyed=False, beats_in="", is_suspect=True)
SCHEDULE = Scenario(
    "schedule",
    enumerated.fired.name,
    _fired,
    frozenset({"one", "two"}),
    lambda values: [values["one"], values["two"]],
    loops=FIRING,
    is_scheduled=True,
)

_RACED = (
    replace(PLAIN, script=_handed_back, is_keyed=False, beats_in="", cancels_in="two"),
    replace(ATOMIC, cancels_in="count", cancels_in_sqlite="one"),
    replace(SLEEPING, script=_cancelled_asleep, awaits_event=False, cancels_waiting=True),
    replace(CHILD, cancels_in="inside"),
    replace(COMPENSATION, cancels_in="ship"),
    replace(SCHEDULE, cancels_in="one"),
)
SCENARIOS = {
    one.name: one
    for one in (
        PLAIN,
        ATOMIC,
        SLEEPING,
        CHILD,
        COMPENSATION,
        SCHEDULE,
        HANDED_BACK,
        FAILING,
        CRASHING,
        *(replace(one, name=f"{one.name}-cancelled") for one in _RACED),
    )
}
