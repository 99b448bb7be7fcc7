"""What differs between databases, as fragments that the named SQL in ``store.sql`` is rendered with."""

from __future__ import annotations

from .postgresql import PostgreSQL
from .sqlite import SQLite

Dialect = PostgreSQL | SQLite
DIALECTS: dict[str, Dialect] = {"postgresql": PostgreSQL(), "sqlite": SQLite()}


def dialect_of(vendor: str) -> Dialect:
    """The dialect for Django's ``connection.vendor``. Raises NotImplementedError for databases we do not speak."""
    try:
        return DIALECTS[vendor]
    except KeyError:
        raise NotImplementedError(f"django_durable runs on PostgreSQL and SQLite, not on {vendor}.") from None
