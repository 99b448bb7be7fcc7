"""Finding runs by what is exact and indexed: no LIKE over millions of rows."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from ..core.names import NAME_MAX
from ..models import IdempotencyKey, Tag
from ..store.database import Database
from ..store.keys import hash_of
from ..workflows.registry import workflows


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
        return runs.filter(pk__in=_with_key(term).union(_with_tag(term)))


def _with_key(key: str) -> QuerySet[Any, Any]:
    """By the unique index, which begins with the workflow's name: hence the names."""
    keys = IdempotencyKey.objects.using(Database().alias)
    return keys.filter(workflow__in=list(workflows()), key_hash=hash_of(key)).values_list("run_id")


def _with_tag(name: str) -> QuerySet[Any, Any]:
    return Tag.objects.using(Database().alias).filter(name=name).values_list("run_id")
