"""What is over in this project's tables, counted cheaply however many repetitions lie behind.

Whoever counts all rows, fifty times a second, is part of what is measured once there are tens of thousands: a look
takes milliseconds then, and so is late by as much as the whole scenario's tenth.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

FIRST = UUID(int=0)


class Counts:
    """Of runs later than ``after``, in the order of their ids. When all of them are over, later looks begin there."""

    def __init__(self, after: UUID | None = None) -> None:
        self._after = after or FIRST
        self._runs = self._steps = 0
        """How many lie before that, and how many steps they have journaled."""
        self._are_over = False
        """Whether the last look found all of them over: the next one begins behind them, and not that one, which may be
        what somebody has waited for."""

    def finished(self) -> int:
        there, over = self._look()
        if self._are_over and there == over:
            self._runs, self._steps = self._runs + over, self.steps()
            [self._after] = self._ask("id FROM {run} WHERE id > %s ORDER BY id DESC LIMIT 1")
            there, over = self._look()
        self._are_over = 0 < there == over
        return self._runs + over

    def steps(self) -> int:
        return self._steps + int(self._ask("count(*) FROM {journal} WHERE run_id > %s")[0])

    def _look(self) -> tuple[int, int]:
        there, over = self._ask("count(*), count(*) FILTER (WHERE status = 'succeeded') FROM {run} WHERE id > %s")
        return there, over

    def _ask(self, what: str) -> tuple[Any, ...]:
        from django.db import connection

        from django_durable.models import JournalEntry, Run

        tables = {"run": Run._meta.db_table, "journal": JournalEntry._meta.db_table}
        # No query set: to make one takes as long as the database's part.
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {what.format(**tables)}", [self._after])
            row: tuple[Any, ...] = cursor.fetchone()
        return row
