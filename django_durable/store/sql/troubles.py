"""Where runs stand with which something is wrong, of those kinds that take more than a condition to find: what is due
and was not woken, and what is ready in queues that nobody serves. Bounded, as in ``standing``, which counts them."""

from __future__ import annotations

from collections.abc import Collection

from ..dialects import Dialect
from . import holds
from .lines import ASLEEP, QUEUED, lines, queues_of
from .standing import LIMITED

OVERDUE, UNSERVED, MORE = "overdue", "unserved", "more"
_LIMITED = f"""
    SELECT r.id, r.queue FROM django_durable_run r WHERE {LIMITED}
    ORDER BY r.limit_key, r.priority DESC, r.queued_at"""


def troubles(d: Dialect, kinds: Collection[str]) -> str:
    """A row with what is held and the time; then kinds with ids as texts, no more than ``limit`` from each index, and
    ``MORE`` where there may be others that were not looked at.

    Of one ``queue``, or of all where it is empty. Due is what was ``late`` seconds ago; what a held workflow has there
    is told by its column: only queues that are held are passed by. ``served``: the queues that are.
    """
    # First, because it gives the columns their types.
    tables, parts = [], [f"SELECT 'now' AS what, {holds.held(d)} AS found, {d.now} AS since"]
    if OVERDUE in kinds:
        tables += [queues_of("asleep", ASLEEP), lines("asleep_lines", "asleep AS q", ASLEEP)]
        parts.append(_overdue(d))
    if UNSERVED in kinds:
        tables.append(queues_of("ready", QUEUED))
        parts += [_unserved(d), _unserved_limited(d), _rest()]
    return (f"WITH RECURSIVE {', '.join(tables)} " if tables else "") + " UNION ALL ".join(parts)


def _overdue(d: Dialect) -> str:
    is_held = "EXISTS (SELECT 1 FROM django_durable_hold h WHERE h.kind = 'queue' AND h.name = l.queue)"
    late = f"r.wake_at < {d.later('-(%(late)s)')}"
    where = f"{ASLEEP} AND r.queue = l.queue AND r.priority = l.priority AND {late}"
    some = d.first_runs(where, "r.wake_at", locks=False)
    which = f"l.priority IS NOT NULL AND {_is_asked_for(d, 'l.queue')} AND NOT {is_held}"
    return _few(OVERDUE, f"asleep_lines AS l {some} WHERE {which}")


def _unserved(d: Dialect) -> str:
    where = f"{QUEUED} AND r.queue = q.name"
    some = d.first_runs(where, "r.priority DESC, r.queued_at", locks=False)
    which = f"q.name IS NOT NULL AND {_is_asked_for(d, 'q.name')} AND NOT q.name {d.among('served')}"
    return _few(UNSERVED, f"ready AS q {some} WHERE {which}")


def _unserved_limited(d: Dialect) -> str:
    """They stand in their index by limit: of all queues together the first are looked at."""
    which = f"{_is_asked_for(d, 'r.queue')} AND NOT r.queue {d.among('served')}"
    return _few(UNSERVED, f"({_LIMITED} LIMIT %(limit)s) AS r WHERE {which}")


def _rest() -> str:
    """Whether there are more of them."""
    return f"SELECT '{MORE}', NULL, NULL FROM ({_LIMITED} LIMIT 1 OFFSET %(limit)s) AS rest"


def _is_asked_for(d: Dialect, queue: str) -> str:
    asked = d.typed("queue", "text")
    return f"({asked} = '' OR {queue} = {asked})"


def _few(kind: str, rows: str) -> str:
    few = f"SELECT CAST(r.id AS text) AS found FROM {rows} LIMIT %(limit)s"
    return f"SELECT '{kind}', few.found, NULL FROM ({few}) AS few"
