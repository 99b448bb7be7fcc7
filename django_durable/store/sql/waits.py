"""Waiting without lost wake-ups: one predicate for suspend, wake and sweep."""

from __future__ import annotations

from ...core.journal.states import LIVE
from ..dialects import Dialect
from .lines import ASLEEP, first_of_lines, lines, queues_of

IS_LIVE = f"c.status IN ({', '.join(repr(status.value) for status in sorted(LIVE))})"
"""In the very words of the index on live children: PostgreSQL does not see that NOT IN the others says the same."""

LOW_WATER = "CASE WHEN j.kind = 'map' AND j.awaits <> '' THEN CAST(j.awaits AS integer) ELSE 0 END"
"""With how many of its children alive the map ``j`` goes on. What entries of other kinds await is no number."""


def has_reason(d: Dialect) -> str:
    """Why the run ``r`` need not wait any longer, time aside.

    Each caller evaluates it in a statement that begins after it holds the row's lock: on an older snapshot an event
    that was sent meanwhile would not be seen.
    """
    # A run that undoes what it did has taken note of its cancellation: it would go on before its back-off is over.
    # Who suspends leaves no other entry waiting: a wait that changed code no longer comes to, or that a deadline cut
    # short, would send the run round and round with nobody there to take what it waited for.
    here = "j.run_id = r.id AND j.status = 'waiting'"
    return f"""(
        (r.cancel_requested_at IS NOT NULL AND r.phase <> 'compensating')
        OR EXISTS (
            SELECT 1 FROM django_durable_journalentry j
            JOIN django_durable_event e ON e.run_id = j.run_id AND {d.is_line_of("e.name", "j.awaits")}
                AND e.consumed_at IS NULL
            WHERE {here} AND j.kind = 'event')
        OR EXISTS (
            SELECT 1 FROM django_durable_journalentry j
            WHERE {here} AND j.kind = 'child' AND NOT EXISTS (
                SELECT 1 FROM django_durable_run c
                WHERE c.parent_id = j.run_id AND c.parent_path = j.path AND {IS_LIVE}))
        OR EXISTS (
            SELECT 1 FROM django_durable_journalentry j
            WHERE {here} AND j.kind = 'map' AND {has_room(d)})
        )"""


def is_item(d: Dialect, path: str, of_map: str) -> str:
    """Whether ``path`` is that of an item of the map at ``of_map``."""
    # Names hold no bare bracket, and the backslash is the character that follows the bracket.
    return d.lies_within(path, f"{of_map} || '['", f"{of_map} || '\\'")


def live_items(d: Dialect) -> str:
    """The children at the map ``j`` that are not over."""
    return f"""
        SELECT c.id FROM django_durable_run c
        WHERE c.parent_id = j.run_id AND {is_item(d, "c.parent_path", "j.path")} AND {IS_LIVE}"""


def has_room(d: Dialect) -> str:
    """Whether what the map ``j`` waits for has come: no more of its children are alive than it says it awaits."""
    # From the end: children begin, and end, about in the order of their items. From the front one would pass by what
    # the index still holds of all those that are over, anew at each one's end.
    backwards = f"{live_items(d)} ORDER BY {d.last_first('c.parent_path')} LIMIT 1"
    # The whole map or a part of it: a plan for either.
    return f"""CASE WHEN {LOW_WATER} = 0 THEN ({backwards}) IS NULL
        ELSE {d.at_most(LOW_WATER, live_items(d), d.last_first("c.parent_path"))} END"""


def is_left_alone(d: Dialect) -> str:
    """The map ``map`` of the run ``id``, where a child of it that is over need not wake that run: the run looks for
    itself before it waits again, or others have to end first. No row where that path is not a map's."""
    return f"""
        SELECT j.path FROM django_durable_journalentry j JOIN django_durable_run r ON r.id = j.run_id
        WHERE j.run_id = %(id)s AND j.path = %(map)s AND j.kind = 'map'
            AND (r.status NOT IN ('running', 'waiting') OR NOT {has_room(d)})"""


def lock_run(d: Dialect, *, skips: bool) -> str:
    """Wait for the run's row: a wake must never skip a locked row for good. ``skips``: who asks comes back anyway."""
    return f"SELECT id FROM django_durable_run WHERE id = %(id)s {d.lock if skips else d.wait_lock}"


def wake(d: Dialect) -> str:
    """The second statement of a wake, under the lock."""
    return f"""
        UPDATE django_durable_run AS r
        SET status = 'queued', queued_at = {d.now}, wake_at = NULL, waiting_on = ''
        WHERE r.id = %(id)s AND r.status = 'waiting' AND {has_reason(d)}
        RETURNING {d.updated}.id, queue, priority"""


def promote(d: Dialect) -> str:
    """Due → queued, up to ``limit``. In no order: whoever gets a full batch asks for the next one at once."""
    is_due = f"{ASLEEP} AND r.wake_at <= {d.now}"
    return f"""
        WITH RECURSIVE {queues_of("queues", ASLEEP)}, {lines("asleep", "queues AS q", ASLEEP)},
        picked AS MATERIALIZED (
            SELECT r.id FROM {first_of_lines(d, "asleep", is_due, "r.wake_at")} LIMIT %(limit)s)
        UPDATE django_durable_run AS r
        SET status = 'queued', queued_at = {d.now}, wake_at = NULL, waiting_on = ''
        FROM picked WHERE r.id = picked.id
        RETURNING {d.updated}.id, queue, priority"""


def find_overslept(d: Dialect) -> str:
    """Runs whose sender, child or canceller died before it woke them. Driven by the runs that somebody has to wake:
    what finished runs have left over (events that nobody took, entries that still wait) lies in nobody's way."""
    awaiting = "SELECT r.id FROM django_durable_run r WHERE r.status = 'waiting' AND"
    event = "SELECT 1 FROM django_durable_event e WHERE e.run_id = r.id AND e.consumed_at IS NULL"
    return f"""
        SELECT r.id FROM django_durable_run r WHERE r.status = 'waiting' AND r.id IN (
            {awaiting} {d.begins_with("r.waiting_on", "event:")} AND EXISTS ({event})
            UNION {awaiting} {d.begins_with("r.waiting_on", "child:")}
            UNION {awaiting} {d.begins_with("r.waiting_on", "join:")}
            UNION {awaiting} {d.begins_with("r.waiting_on", "map:")}
            UNION {awaiting} {d.begins_with("r.waiting_on", "race:")}
            UNION {awaiting} r.cancel_requested_at IS NOT NULL
        ) AND {has_reason(d)} LIMIT %(limit)s"""


def unwanted_children(d: Dialect) -> str:
    """The live, attached children of the run ``id`` at ``paths``, or at maps there, whom nobody has asked to stop."""
    wanted = f"""
        SELECT c.id FROM {d.names("paths", "p")} JOIN django_durable_run c ON c.parent_id = %(id)s
            AND {IS_LIVE} AND NOT c.detached AND c.cancel_requested_at IS NULL AND"""
    # Not with OR: an index serves each of the two.
    return f"""
        {wanted} c.parent_path = p.name
        UNION {wanted} {is_item(d, "c.parent_path", "p.name")}
        ORDER BY id LIMIT %(limit)s"""


def find_unwanted() -> str:
    """What parents say of children that are to be cancelled: branches that lost a race had started them."""
    return "SELECT run_id, data FROM django_durable_payload WHERE kind = 'unwanted' LIMIT %(limit)s"
