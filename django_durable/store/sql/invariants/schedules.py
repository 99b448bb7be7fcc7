"""Schedules and their fires."""

from __future__ import annotations

from ...dialects import Dialect
from .windows import in_window, is_none, is_some, judged

STARTED = "('fired', 'manual', 'backfilled')"
"""Outcomes of fires that started a run of their own. ``debounced``: the run of another start stands for several."""


def fires(d: Dialect) -> str:
    """I15: each fire that says so has a run, its own; each instant fired once.

    Retention removes runs of the past before their fires: looked for are those of the last ``kept`` seconds only.
    """
    run = "SELECT 1 FROM django_durable_run r WHERE r.id = f.run_id"
    other = f"SELECT 1 FROM django_durable_fire o WHERE o.run_id = f.run_id AND o.id < f.id AND o.outcome IN {STARTED}"
    again = """SELECT 1 FROM django_durable_fire o
        WHERE o.schedule_id = f.schedule_id AND o.scheduled_for = f.scheduled_for AND o.id < f.id"""
    which = "' of schedule ' || f.schedule_id"
    is_young = f"f.fired_at > {d.later('-(%(kept)s)')}"
    return judged(
        "f.id AS id, f.run_id AS run_id",
        f"""
        WHEN {is_some(again)} THEN 'an instant' || {which} || ' fired twice'
        WHEN f.run_id IS NULL AND f.outcome IN {STARTED} THEN 'a fire' || {which} || ' that started no run'
        WHEN f.run_id IS NOT NULL AND f.outcome IN ('skipped: overlap', 'skipped: missed')
            THEN 'a skipped instant' || {which} || ' with a run'
        WHEN f.outcome IN {STARTED} AND {is_some(other)} THEN 'the run of two fires, one' || {which}
        WHEN f.run_id IS NOT NULL AND {is_young} AND {is_none(run)} THEN 'no run, but a fire' || {which} || ' names it'
        """,
        f"django_durable_fire f WHERE {in_window('f.id')}",
    )


def plans(d: Dialect) -> str:
    """I15: a schedule goes on after the instant that it fired last."""
    return judged(
        "s.id AS id, NULL AS run_id",
        """
        WHEN s.next_fire_at <= s.last_scheduled_for
            THEN 'schedule ' || s.id || ' would fire an instant again that it has fired'""",
        f"django_durable_schedule s WHERE {in_window('s.id')}",
    )
