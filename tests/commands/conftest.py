"""Commands called in this process, and rows that no engine would write."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection


@dataclass
class Called:
    """What a command printed; ``failed`` is the sentence with which it ended, if it ended with exit status 1."""

    out: str
    err: str
    failed: str | None

    @property
    def data(self) -> Any:
        return json.loads(self.out)


Call = Callable[..., Called]


@pytest.fixture
def call() -> Call:
    def call(name: str, *arguments: object) -> Called:
        out, err = StringIO(), StringIO()
        failed = None
        try:
            call_command(name, *map(str, arguments), stdout=out, stderr=err)
        except CommandError as error:
            assert error.returncode == 1
            failed = str(error)
        return Called(out.getvalue(), err.getvalue(), failed)

    return call


def allow_anything(table: str, *constraints: str) -> None:
    """Take the table's constraints away, for the rest of the test's transaction."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            for constraint in constraints:
                cursor.execute(f"ALTER TABLE {table} DROP CONSTRAINT {constraint}")
        else:
            # SQLite cannot drop one: the same rows in a table of the same columns, without any.
            cursor.execute(f"CREATE TABLE copied AS SELECT * FROM {table}")
            cursor.execute(f"DROP TABLE {table}")
            cursor.execute(f"ALTER TABLE copied RENAME TO {table}")
