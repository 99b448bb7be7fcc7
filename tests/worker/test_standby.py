"""The process that stands by: when it is started, and what it is called for."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from math import inf
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command

from django_durable.management.commands import durable_worker
from django_durable.worker.child import DRAINED
from django_durable.worker.spawning import CALL, CHILD_ENV, executing, spawn
from django_durable.worker.supervisor import (
    LONGEST_RESTART_PAUSE,
    QUICK_DEATH_SECONDS,
    STANDBY_SECONDS,
    SUSPECTS_FOR_EACH,
    Supervisor,
)
from tests.worker.children import KILLED, Fake, commanded, spawning

pytestmark = pytest.mark.django_db(transaction=True)
STANDBY = "standby"


@pytest.fixture(autouse=True)
def frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time stands still, so that for how long something is put off is exact."""
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)


class Team:
    """A supervisor of one process, and one that stands by once what was put off has come."""

    def __init__(self, supervisor: Supervisor) -> None:
        self.supervisor = supervisor
        self.spawned = spawning(supervisor)

    @property
    def places(self) -> list[int | str | None]:
        return [STANDBY if fake.child.is_standby else fake.child.place for fake in self.spawned]

    @property
    def standby(self) -> Fake:
        [fake] = [fake for fake in self.spawned if fake.child.is_standby and fake.returncode is None]
        return fake

    @property
    def comes_in(self) -> float:
        """Seconds until one is to be started that stands by."""
        return self.supervisor._standby_at - time.monotonic()

    def go_on(self) -> None:
        """A round, after everything that was put off."""
        supervisor = self.supervisor
        supervisor._start_at = dict.fromkeys(supervisor._start_at, 0.0)
        supervisor._standby_at = min(supervisor._standby_at, 0.0) if supervisor._standby_at < inf else inf
        supervisor._start_due()

    def want(self, suspects: int) -> None:
        self.supervisor._suspects = suspects
        self.supervisor._start_due()


@pytest.fixture
def team() -> Iterator[Team]:
    supervisor = Supervisor(["never started"], 1, has_standby=True)
    team = Team(supervisor)
    supervisor._start_due()
    assert team.places == [0], "it is not to take the core from those who are needed"
    team.go_on()
    assert team.places == [0, STANDBY]
    yield team
    supervisor._db.close()


def test_there_is_none_unless_it_is_asked_for() -> None:
    team = Team(Supervisor(["never started"], 1))
    team.go_on()
    team.go_on()
    assert (team.places, team.comes_in) == ([0], inf)


def test_it_is_put_off_by_every_other_start() -> None:
    team = Team(Supervisor(["never started"], 1, has_standby=True))
    team.go_on()
    assert team.places == [0]
    assert team.comes_in == STANDBY_SECONDS


def test_suspects_get_it_and_another_is_to_take_its_place(team: Team) -> None:
    called = team.standby
    team.want(2 * SUSPECTS_FOR_EACH)
    assert team.places == [0, None, None], "the first of both is there already"
    assert [fake.orders() for fake in team.spawned[1:]] == [CALL, b""]
    assert team.spawned[1] is called
    assert team.comes_in == STANDBY_SECONDS
    team.go_on()
    assert team.places == [0, None, None, STANDBY]


def test_it_is_called_also_where_no_process_can_be_started(team: Team) -> None:
    team.supervisor._start_at[None] = time.monotonic() + 30
    team.want(1)
    assert team.places == [0, None]


def test_no_second_one_is_waited_for_where_none_can_be_started(team: Team) -> None:
    team.supervisor._start_at[None] = time.monotonic() + 30
    team.want(5 * SUSPECTS_FOR_EACH)
    team.want(5 * SUSPECTS_FOR_EACH)
    assert team.places == [0, None]


def test_it_is_called_instead_of_trying_once_more_to_start_one(team: Team) -> None:
    team.supervisor._start_at[None] = 0.0
    team.supervisor._start_due()
    assert team.places == [0, None]


def test_one_that_has_died_is_not_called(team: Team) -> None:
    team.standby.die()
    team.want(1)
    assert team.places == [0, STANDBY, None]


@pytest.mark.parametrize(
    ("age", "is_draining", "pause"),
    [
        (0.0, False, STANDBY_SECONDS),
        (QUICK_DEATH_SECONDS + 1, False, STANDBY_SECONDS),
        (0.0, True, STANDBY_SECONDS),
    ],
)
def test_one_that_has_ended_is_replaced_and_not_at_once(
    team: Team, caplog: pytest.LogCaptureFixture, age: float, is_draining: bool, pause: float
) -> None:
    standby = team.standby
    standby.child.started -= age
    if is_draining:
        team.supervisor._restart_all()
    else:
        standby.die()
    team.supervisor._bury()
    assert team.comes_in == pause
    assert ("what stood by has ended" in caplog.text) is not is_draining
    assert "died worker=" not in caplog.text, "nobody worked there"


def test_one_that_dies_at_each_start_is_replaced_more_and_more_slowly(team: Team) -> None:
    pauses: list[float] = []
    for age in (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, QUICK_DEATH_SECONDS + 1, 0.0):
        standby = team.standby
        standby.child.started -= age
        standby.die()
        team.supervisor._bury()
        pauses.append(team.comes_in)
        team.go_on()
    assert pauses == [STANDBY_SECONDS, 6, 12, 24, LONGEST_RESTART_PAUSE, LONGEST_RESTART_PAUSE, STANDBY_SECONDS, 3]


def test_one_that_dies_at_each_start_for_days_takes_nobody_with_it(team: Team) -> None:
    """As where a deploy has broken what is imported, and those that work have imported what was there before."""
    team.supervisor._standby_deaths = 10_000
    team.standby.die()
    team.supervisor._bury()
    assert team.comes_in == LONGEST_RESTART_PAUSE


def test_what_it_was_called_for_is_not_forgotten_where_it_dies_on_the_way(team: Team) -> None:
    called = team.standby
    team.want(1)
    called.die()
    team.supervisor._bury()
    team.supervisor._start_due()
    assert team.places == [0, None, None]
    team.spawned[-1].die()
    team.supervisor._bury()
    team.supervisor._start_due()
    assert team.places == [0, None, None], "one that dies at its start does so for ever"


def test_a_drain_ends_it_at_once(team: Team) -> None:
    standby = team.standby
    team.supervisor._on_signal(signal.SIGTERM, None)
    team.supervisor._heed_signals()
    team.spawned[0].returncode = DRAINED
    assert standby.returncode == KILLED, "it may still import the project"
    team.supervisor._bury()
    assert not team.supervisor._is_needed()


def test_one_that_drains_is_not_called(team: Team) -> None:
    team.supervisor._restart_all()
    team.want(1)
    assert team.places == [0, STANDBY, None]


# --- what it is told ---------------------------------------------------------------------------


@pytest.mark.parametrize("is_standby", [True, False])
def test_it_is_told_that_it_is_isolated_and_stands_by(is_standby: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[dict[str, Any]] = []

    def started(command: list[str], *, env: dict[str, str], pass_fds: tuple[int, ...]) -> None:
        told.append(json.loads(env[CHILD_ENV]))

    monkeypatch.setattr(subprocess, "Popen", started)
    child = spawn(executing(["never started"]), None, is_standby=is_standby)
    child.close()
    [words] = told
    assert (words["isolated"], words["loops"], words["stands_by"]) == (True, False, is_standby)


@pytest.mark.parametrize(
    ("said", "stands_by"), [({}, False), ({"stands_by": False}, False), ({"stands_by": True}, True)]
)
def test_a_supervisor_of_before_says_nothing_of_it(
    said: dict[str, bool], stands_by: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a deploy it executes the new code, as long as nobody has started it again."""
    began: list[bool] = []
    words = {"id": str(uuid4()), "orders": 3, "reports": 4, "isolated": True, "loops": False, **said}
    monkeypatch.setenv(CHILD_ENV, json.dumps(words))
    monkeypatch.setattr(durable_worker, "run_child", lambda *given, stands_by: began.append(stands_by))
    # What it tells the connections of a worker is not for those of later tests.
    monkeypatch.setattr(durable_worker.silence, "bound", lambda: None)
    call_command("durable_worker")
    assert began == [stands_by]


@pytest.mark.parametrize(
    ("options", "has_standby"),
    [
        ([], True),
        (["--processes", "3"], True),
        (["--no-standby"], False),
        (["--burst"], False),
        (["--max-seconds", "5"], False),
        (["--max-runs", "5"], False),
    ],
)
def test_who_has_one(options: list[str], has_standby: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert commanded(monkeypatch, *options)["has_standby"] is has_standby
