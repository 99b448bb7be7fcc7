"""Finding runs by what is exact and indexed: no LIKE over millions of rows."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet

from ..core.names import NAME_MAX
from ..models import Run, Tag
from ..store.database import Database
from ..store.keys import hash_of
from ..store.sql import searches as sql


def find(runs: QuerySet[Any], term: str) -> QuerySet[Any]:
    """The run with this id, and the runs with this idempotency key or tag: these may look like an id."""
    if not term.strip():
        return runs
    # A NUL is in no name, and PostgreSQL takes no text that has one.
    if "\x00" in term or len(term.strip()) > NAME_MAX:
        return runs.none()
    spellings = _spellings(term)
    found = _tags(*spellings).values("run_id")
    if few := {*_with_id(term), *_with_key(*spellings)}:
        # Not joined by OR, whose parts PostgreSQL would ask of each run that there is.
        found = found.union(Run.objects.using(Database().alias).filter(pk__in=few).values("pk"), all=True)
    return runs.filter(pk__in=found)


def ways(runs: QuerySet[Any], term: str) -> list[QuerySet[Any]]:
    """As ``find``, in parts that have no run in common and of which each is in one index.

    Last what there is at times only: a walk that goes on another time finds the others where they were.
    """
    spellings = _spellings(term)
    few = {*_with_id(term), *_with_key(*spellings)}
    parts = []
    for number, name in enumerate(spellings):
        tagged = runs.filter(pk__in=_tags(name).values_list("run_id")).exclude(pk__in=few)
        parts.append(tagged.exclude(_has_tag(*spellings[:number])) if number else tagged)
    return [*parts, runs.filter(pk__in=few)] if few else parts


def _spellings(term: str) -> list[str]:
    """What it may be the name of: spaces around it may be part of that, or have come along with it."""
    return list(dict.fromkeys([term, term.strip()]))


def _with_id(term: str) -> list[UUID]:
    try:
        return [UUID(term.strip())]
    except ValueError:
        return []


def _with_key(*keys: str) -> list[UUID]:
    db, hashes = Database(), {f"hash{number}": hash_of(key) for number, key in enumerate(keys)}
    found = db.rows(sql.keyed(*(f"%({name})s" for name in hashes)), **hashes)
    return [db.dialect.read_key(run_id) for (run_id,) in found]


def _has_tag(*names: str) -> Q:
    """Asked of each run: of a list that it is to be in, or not in, very many others may have to be read."""
    return Q(Exists(_tags(*names).filter(run_id=OuterRef("pk"))))


def _tags(*names: str) -> QuerySet[Tag]:
    return Tag.objects.using(Database().alias).filter(name__in=names)
