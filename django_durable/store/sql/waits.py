"""Waiting without lost wake-ups: one predicate for suspend, wake and sweep."""

from __future__ import annotations

from ..dialects import Dialect
from .lines import ASLEEP, first_of_lines, lines, queues_of


def has_reason(waiting_on: str) -> str:
    """Why the run ``r`` need not wait any longer, time aside. ``waiting_on``: kind and path of the entry it waits at.

    Each caller evaluates it in a statement that begins after it holds the row's lock: on an older snapshot an event
    that was sent meanwhile would not be seen.
    """
    # Only that entry: a wait that changed code no longer comes to, or that a deadline cut short, stays in the journal,
    # and what it waited for would send the run round and round with nobody there to take it.
    here = f"j.run_id = r.id AND j.status = 'waiting' AND j.kind || ':' || j.path = {waiting_on}"
    return f"""(
        r.cancel_requested_at IS NOT NULL
        OR EXISTS (
            SELECT 1 FROM django_durable_journalentry j
            JOIN django_durable_event e ON e.run_id = j.run_id AND e.name = j.awaits AND e.consumed_at IS NULL
            WHERE {here} AND j.kind = 'event')
        OR EXISTS (
            SELECT 1 FROM django_durable_journalentry j
            WHERE {here} AND j.kind = 'child' AND NOT EXISTS (
                SELECT 1 FROM django_durable_run c WHERE c.parent_id = j.run_id AND c.parent_path = j.path
                AND c.status NOT IN ('succeeded', 'failed', 'cancelled')))
        )"""


def lock_run(d: Dialect, *, skips: bool) -> str:
    """Wait for the run's row: a wake must never skip a locked row for good. ``skips``: who asks comes back anyway."""
    return f"SELECT id FROM django_durable_run WHERE id = %(id)s {d.lock if skips else d.wait_lock}"


def wake(d: Dialect) -> str:
    """The second statement of a wake, under the lock."""
    return f"""
        UPDATE django_durable_run AS r
        SET status = 'queued', queued_at = {d.now}, wake_at = NULL, waiting_on = ''
        WHERE r.id = %(id)s AND r.status = 'waiting' AND {has_reason("r.waiting_on")}
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
            UNION {awaiting} r.cancel_requested_at IS NOT NULL
        ) AND {has_reason("r.waiting_on")} LIMIT %(limit)s"""
