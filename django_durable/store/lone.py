"""A statement about one run: rows of a record set that has one are parameters, not a text that has to be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .dialects.postgresql import PostgreSQL

Row = Mapping[str, Any]
Shape = tuple[str, ...]
"""Which columns a row has; the others are NULL."""


class Lone(PostgreSQL):
    """PostgreSQL where some record sets have a single row, whose columns are parameters of the statement.

    To read a JSON array, hash what it has and join that costs more than the row: PostgreSQL 18 took 120 µs of CPU for
    the commit of one step and takes 88, for that of a run's last step 260 and takes 172.
    """

    def __init__(self, shapes: Mapping[str, Shape]) -> None:
        """``shapes``: of each such record set; any other is JSON as ever."""
        self._shapes = shapes

    def recordset(self, parameter: str, alias: str, columns: dict[str, str]) -> str:
        if (shape := self._shapes.get(parameter)) is None:
            return super().recordset(parameter, alias, columns)
        values = (
            (f"%({named(parameter, column)})s" if column in shape else "NULL") + f"::{kind} AS {column}"
            for column, kind in columns.items()
        )
        return f"(SELECT {', '.join(values)}) AS {alias}"

    def is_one_row(self, parameter: str) -> bool:
        return parameter in self._shapes


def named(parameter: str, column: str) -> str:
    """What a column of a record set is called as a parameter: in brief, since psycopg parses a long statement anew each
    time. Those that may be a lone run's begin with different letters."""
    return f"{parameter[0]}_{column}"


def add_parameters(parameters: dict[str, Any], parameter: str, row: Row) -> Shape:
    """The shape of a row of ``parameter``, whose values go into ``parameters`` by the names that ``Lone`` gives them;
    what is None is left out."""
    first, shape = named(parameter, ""), []
    for column, value in row.items():
        if value is not None:
            shape.append(column)
            parameters[first + column] = value
    return tuple(shape)
