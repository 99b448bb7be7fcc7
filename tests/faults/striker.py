"""Makes the faults in the process that is to meet them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from django_durable.core import clock
from tests.faults.control import Control
from tests.faults.kinds import Action
from tests.faults.links import is_in_transaction, is_open, run_out
from tests.faults.points import Points

DIED = 137


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
        return [one.connection.info.backend_pid for one in links if is_open(one)]

    def _stall(self) -> None:
        inside = [link for link in self.points.links if is_in_transaction(link)]
        if not self._is_postgres:
            # Who stands still with the one write lock keeps everybody out: time passes, and nobody takes over.
            offset = self._control.ask("pass_time" if inside else "take_over", [])
        else:
            offset = self._control.ask("take_over", [pid for link in inside if (pid := run_out(link))])
        clock.set_offset(offset)
