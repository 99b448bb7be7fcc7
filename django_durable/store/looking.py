"""Runs that meet a condition, among the first so many in the order of an index: bounded, however few there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import BooleanField, ExpressionWrapper, F, Q, QuerySet, Value

from ..models import Run
from .database import Database


@dataclass(slots=True, frozen=True)
class Look:
    """Runs in an order that an index has; at most ``most`` of them are looked at."""

    runs: QuerySet[Run]
    most: int
    is_newest_first: bool = True


@dataclass(slots=True, frozen=True)
class Fitting:
    """``ids`` are those that were asked for, of ``count``; ``oldest`` is the last of them all."""

    ids: list[UUID] = field(default_factory=list)
    count: int = 0
    oldest: UUID | None = None


def fitting(db: Database, looks: Sequence[Look], condition: Q, most: int, part: slice | None = None) -> Fitting:
    """The newest ``most``, newest first, of the runs that these look at and that meet the condition; of their ids only
    ``part``. One query. Where that part is empty nothing is known of the others either."""
    # The condition is a column of what is looked at, and asked outside of it. In one WHERE with the order and the limit
    # it would have PostgreSQL walk ten million rows for the few that meet it, where it takes them to be more.
    fits = ExpressionWrapper(condition, BooleanField()) if condition else Value(True)
    parts, parameters = [], []
    for number, look in enumerate(looks):
        rows = look.runs.annotate(found=F("pk"), fits=fits).values_list("found", "fits")[: look.most]
        sql, more = rows.query.get_compiler(db.alias).as_sql()
        end = f" LIMIT {most:d}" if look.is_newest_first else ""
        parts.append(f"SELECT found FROM (SELECT found FROM ({sql}) AS looked WHERE fits{end}) AS part{number}")
        parameters += more
    part = part or slice(0, most)
    rows_found = _rows(
        db,
        f"""
        WITH every AS (SELECT found FROM ({" UNION ALL ".join(parts)}) AS parts ORDER BY found DESC LIMIT {most:d})
        SELECT every.found, (SELECT count(*) FROM every), (SELECT found FROM every ORDER BY found LIMIT 1)
        FROM every ORDER BY every.found DESC LIMIT {part.stop - part.start:d} OFFSET {part.start:d}""",
        parameters,
    )
    if not rows_found:
        return Fitting()
    read = db.dialect.read_key
    return Fitting([read(row[0]) for row in rows_found], rows_found[0][1], read(rows_found[0][2]))


def has_more(db: Database, looks: Sequence[Look]) -> bool:
    """Whether there are runs that were not looked at, in any of these. One query."""
    parts, parameters = [], []
    for number, look in enumerate(looks):
        rows = look.runs.values_list("pk")[look.most : look.most + 1]
        sql, more = rows.query.get_compiler(db.alias).as_sql()
        parts.append(f"SELECT 1 FROM ({sql}) AS part{number}")
        parameters += more
    return bool(_rows(db, f"{' UNION ALL '.join(parts)} LIMIT 1", parameters))


def _rows(db: Database, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    with db.connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows
