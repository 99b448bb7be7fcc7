"""What reaches the database as a statement, apart from what reaches it as a value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.db import connection

Seen = list[str]


@contextmanager
def statements_with(marker: str) -> Iterator[tuple[Seen, Seen]]:
    """Statements whose text holds ``marker``; and those of whose values one does: that shows that it came so far."""
    written: Seen = []
    given: Seen = []

    def look(execute: Any, sql: Any, params: Any, many: bool, context: Any) -> Any:
        if marker in str(sql):
            written.append(str(sql))
        if marker in repr(params):
            given.append(str(sql))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(look):
        yield written, given


@contextmanager
def values_given() -> Iterator[list[Any]]:
    """What statements are given as values, each by itself."""
    values: list[Any] = []

    def look(execute: Any, sql: Any, params: Any, many: bool, context: Any) -> Any:
        values.extend(one for row in (params if many else [params]) for one in _each(row))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(look):
        yield values


def _each(params: Any) -> Iterable[Any]:
    return params.values() if isinstance(params, Mapping) else params or ()
