"""Finding runs by what is exact and indexed: no LIKE over millions of rows."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet
from django.db.models.expressions import RawSQL

from ..core.names import NAME_MAX
from ..models import Tag
from ..store.database import Database
from ..store.keys import hash_of
from ..store.sql import searches as sql


def find(runs: QuerySet[Any], term: str) -> QuerySet[Any]:
    """The run with this id, or the runs with this idempotency key or tag."""
    term = term.strip()
    if not term:
        return runs
    if len(term) > NAME_MAX:
        return runs.none()
    try:
        return runs.filter(pk=UUID(term))
    except ValueError:
        keyed = RawSQL(sql.keyed("%s"), [hash_of(term)])  # noqa: S611  (of constants of the package)
        return runs.filter(Q(pk__in=keyed) | Q(pk__in=_with_tag(term)))


def ways(runs: QuerySet[Any], term: str) -> list[QuerySet[Any]]:
    """As ``find``, in parts that have no run in common and of which each is in one index."""
    try:
        return [runs.filter(pk=UUID(term))]
    except ValueError:
        keyed = _with_key(term)
        tagged = runs.filter(pk__in=_with_tag(term))
        return [runs.filter(pk__in=keyed), tagged.exclude(pk__in=keyed)] if keyed else [tagged]


def _with_key(key: str) -> list[UUID]:
    db = Database()
    return [db.dialect.read_key(run_id) for (run_id,) in db.rows(sql.keyed("%(hash)s"), hash=hash_of(key))]


def _with_tag(name: str) -> QuerySet[Any, Any]:
    return Tag.objects.using(Database().alias).filter(name=name).values_list("run_id")
