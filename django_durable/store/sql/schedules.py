"""Schedules: which are due, whether a run of theirs is live, and the one fire of each due instant."""

from __future__ import annotations

from ..dialects import Dialect
from .endings import TERMINAL

# Driven by the open fires of one schedule, a handful through their partial index, never by its runs or all live runs.
_LIVE = f"""FROM django_durable_fire f JOIN django_durable_run r ON r.id = f.run_id
            WHERE f.is_open AND r.status NOT IN {TERMINAL}"""


def now(d: Dialect) -> str:
    return f"SELECT {d.now}"


def look(d: Dialect) -> str:
    """What this worker may fire within ``horizon`` seconds, and what has no next instant yet.

    ``declared``: the rows of its own code. One that only other code declares is theirs to fire, or stale. A schedule
    that waits for its own run comes last: it must not take the places of those that can fire.
    """
    return f"""
        SELECT s.id, s.next_fire_at, {d.now},
            CASE WHEN s.overlap = 'queue' AND EXISTS (SELECT 1 {_LIVE} AND f.schedule_id = s.id)
                THEN 1 ELSE 0 END AS is_held
        FROM django_durable_schedule s
        WHERE s.enabled
            AND (s.next_fire_at <= {d.later("%(horizon)s")} OR (s.next_fire_at IS NULL AND s.problem = ''))
            AND s.workflow {d.among("workflows")} AND (s.app_label = '' OR s.id {d.among("declared")})
        ORDER BY is_held, s.next_fire_at LIMIT %(limit)s"""


def take(d: Dialect) -> str:
    """Lock the schedule if it is still due: another worker may hold it, or have fired it since we looked."""
    return f"""
        SELECT s.next_fire_at, {d.now} FROM django_durable_schedule s
        WHERE s.id = %(id)s AND s.enabled
            AND (s.next_fire_at <= {d.now} OR (s.next_fire_at IS NULL AND s.problem = '')) {d.lock}"""


def settle(d: Dialect) -> str:
    """Close the fires whose run can never be live again. A failed or cancelled one an operator may still resume."""
    return f"""
        UPDATE django_durable_fire SET is_open = (1 = 0)
        WHERE schedule_id = %(id)s AND is_open AND NOT EXISTS (
            SELECT 1 FROM django_durable_run r WHERE r.id = django_durable_fire.run_id AND r.status <> 'succeeded'
            AND (r.finished_at IS NULL OR r.finished_at > {d.later("-(%(seconds)s)")}))"""


def live(d: Dialect) -> str:
    """The live runs of a schedule, each with when it was asked to stop. After the lock, in a statement of its own:
    only such a one sees the run that whoever held the lock before us has started."""
    return f"SELECT r.id, r.cancel_requested_at {_LIVE} AND f.schedule_id = %(id)s ORDER BY r.id"


def insert_fire(d: Dialect) -> str:
    """No row comes back where the instant has fired already, whatever anybody did to ``next_fire_at``."""
    return f"""
        INSERT INTO django_durable_fire (schedule_id, scheduled_for, fired_at, run_id, outcome, is_open)
        VALUES (%(id)s, %(scheduled_for)s, {d.now}, %(run_id)s, %(outcome)s, %(is_open)s)
        ON CONFLICT (schedule_id, scheduled_for) DO NOTHING RETURNING scheduled_for"""


def insert_missing(d: Dialect) -> str:
    """The fire of an instant for which nobody has started a run, also of one that was skipped.

    It is never open: runs of the past are in no regular instant's way, and none of these cancels them.
    """
    return f"""
        INSERT INTO django_durable_fire (schedule_id, scheduled_for, fired_at, run_id, outcome, is_open)
        VALUES (%(id)s, %(scheduled_for)s, {d.now}, %(run_id)s, %(outcome)s, (1 = 0))
        ON CONFLICT (schedule_id, scheduled_for) DO UPDATE
            SET run_id = excluded.run_id, outcome = excluded.outcome, fired_at = excluded.fired_at
            WHERE django_durable_fire.run_id IS NULL
        RETURNING scheduled_for"""


def confirm(d: Dialect) -> str:
    """Say that running code declares these rows, unless that was said a short while ago."""
    return f"""
        UPDATE django_durable_schedule SET declared_at = {d.now} WHERE id IN (
            SELECT s.id FROM django_durable_schedule s
            WHERE s.id {d.among("ids")} AND (s.declared_at IS NULL OR s.declared_at <= {d.later("-(%(seconds)s)")})
            ORDER BY s.id {d.lock})"""


def find_stale(d: Dialect) -> str:
    """Those of ``ids`` that no running code has declared for a while, under their locks."""
    return f"""
        SELECT s.id FROM django_durable_schedule s
        WHERE s.id {d.among("ids")} AND (s.declared_at IS NULL OR s.declared_at <= {d.later("-(%(seconds)s)")})
        ORDER BY s.id {d.lock}"""
