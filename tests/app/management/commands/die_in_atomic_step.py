"""One attempt of each queued run of `faults.counting`, whose process dies at the next statement or commit each time."""

from __future__ import annotations

import os
import traceback
from argparse import ArgumentParser
from collections.abc import Callable
from itertools import count
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand
from django.db import connection

from django_durable.core.clock import DatabaseClock
from django_durable.executor.sync_attempt import run_attempt
from django_durable.store.claiming import Claimant, claim_next
from django_durable.store.database import Database, PrivateDatabase
from django_durable.workflows import get_workflow
from tests.direct_commit import DirectCommit

DIED = 137


class Command(BaseCommand):
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("worker", type=UUID)

    def handle(self, *args: Any, worker: UUID, **options: Any) -> None:
        """Print how each of the processes ended; the last one finds no point left to die at."""
        for point in count(1):
            # Before the first connection and the first thread, so that the child has everything of its own.
            child = os.fork()
            if not child:
                os._exit(attempt(worker, point))
            _, status = os.waitpid(child, 0)
            ended = os.waitstatus_to_exitcode(status)
            self.stdout.write(str(ended))
            if ended != DIED:
                break


def attempt(worker: UUID, point: int) -> int:
    """Die at this point, counted from 1, before or after a statement of the step."""
    try:
        db = Database()
        who = Claimant(worker, ("default",), ("faults.counting",))
        (claim,) = claim_next(db, who, 1, lease=30, time=DatabaseClock())
        passed = Points(point)
        # Everything on the connection of the step's own transaction; the engine's other writes use one of their own.
        connection.execute_wrappers.append(passed.around)
        connection._commit = passed.around_call(connection._commit)  # type: ignore[attr-defined,method-assign]
        run_attempt(claim, get_workflow(claim.workflow), DirectCommit(PrivateDatabase()))
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


class Points:
    def __init__(self, point: int) -> None:
        self._left = point

    def reach(self) -> None:
        self._left -= 1
        if self._left == 0:
            os._exit(DIED)

    def around(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        return self.around_call(execute)(sql, params, many, context)

    def around_call(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def between(*args: Any) -> Any:
            self.reach()
            answer = call(*args)
            self.reach()
            return answer

        return between
