"""Children of a supervisor without a process: dead ones, as far as it can see, and ones that do as they are told."""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID, uuid4

import pytest
from django.core.management import call_command

from django_durable.management.commands import durable_worker
from django_durable.models import Run
from django_durable.store.database import PrivateDatabase
from django_durable.worker.child import DRAINED
from django_durable.worker.spawning import Child
from django_durable.worker.supervisor import Supervisor
from tests.store.rows import running

KILLED = -9


def dead(returncode: int = KILLED, *, age: float = 0.0, place: int | None = 0, is_draining: bool = False) -> Child:
    process = cast(Any, SimpleNamespace(pid=0, returncode=returncode))
    return Child(uuid4(), process, -1, -1, place, time.monotonic() - age, is_draining)


def held_by(db: PrivateDatabase, child: Child) -> UUID:
    """A run that it was working on."""
    held = running(db)
    Run.objects.filter(pk=held.run_id).update(leased_by=child.id)
    return held.run_id


class Fake:
    """A child without a process, with a real pipe of orders; it ends when it is told to, as a real one does."""

    def __init__(self, supervisor: Supervisor, place: int | None) -> None:
        self._told, orders = os.pipe()
        reports, self._reports = os.pipe()
        self.pid, self.returncode = 0, cast("int | None", None)
        os.set_blocking(self._told, False)
        supervisor._selector.register(reports, selectors.EVENT_READ)
        self.child = Child(uuid4(), cast(Any, self), orders, reports, place, time.monotonic())

    def poll(self) -> int | None:
        if self.returncode is None and self._is_told():
            self.returncode = DRAINED
        return self.returncode

    def _is_told(self) -> bool:
        try:
            return os.read(self._told, 1) == b""
        except BlockingIOError:
            return False

    def orders(self) -> bytes:
        """What it was told that it has not read yet."""
        try:
            return os.read(self._told, 64)
        except BlockingIOError:
            return b""

    def die(self) -> None:
        """As a process does, whose descriptors are closed with it."""
        self.returncode = KILLED
        os.close(self._told)

    def kill(self) -> None:
        self.returncode = KILLED

    def wait(self) -> None:
        pass


def spawning(supervisor: Supervisor, then: Callable[[Fake], object] = lambda fake: None) -> list[Fake]:
    """Who was spawned; ``then`` happens when the process is there and the supervisor does not know it yet."""
    spawned: list[Fake] = []

    def spawn(place: int | None, *, is_standby: bool = False) -> Child:
        spawned.append(Fake(supervisor, place))
        spawned[-1].child.is_standby = is_standby
        then(spawned[-1])
        return spawned[-1].child

    cast(Any, supervisor)._spawn = spawn
    return spawned


def commanded(monkeypatch: pytest.MonkeyPatch, *options: str) -> dict[str, Any]:
    """How ``durable_worker`` with ``options`` makes its supervisor, of which there is none then."""
    made: dict[str, Any] = {}

    class Made(Supervisor):
        def __init__(self, *given: Any, **named: Any) -> None:
            made.update(named)

        def run(self) -> None:
            pass

    monkeypatch.setattr(durable_worker, "Supervisor", Made)
    monkeypatch.setattr(durable_worker, "Watcher", lambda changed: SimpleNamespace(begin=lambda: None))
    # What it tells the connections of a worker is not for those of later tests.
    monkeypatch.setattr(durable_worker.silence, "bound", lambda: None)
    call_command("durable_worker", *options)
    return made
