"""What waiting runs wait for."""

from __future__ import annotations

from ....core.journal.outcomes import TRIED_AGAIN
from ...dialects import Dialect
from ..endings import TERMINAL
from ..waits import LOW_WATER, has_room, is_item
from .windows import in_window, is_none, is_some

AS_A_WHOLE = f"('{TRIED_AGAIN}', 'retry:run')"
"""What it waits on to be tried again; 0.1.0 wrote the second."""


def waits(d: Dialect) -> str:
    """I22: a waiting run has something that will wake it, and nothing that should have woken it a sweep ago.

    The entries that are ``waiting`` are what it waits for, all of them, and it has one, or one that is ``retrying``,
    unless it waits for its next attempt as a whole. A run that is over may keep such entries: a cancellation or the
    deadline found it there, and resumed it goes on there. One that undoes what it did has taken note of its
    cancellation, and may wait until it tries that again.
    """
    entry = "SELECT 1 FROM django_durable_journalentry j WHERE j.run_id = r.id AND j.status"
    waiting = f"{entry} = 'waiting' AND j.kind ="
    children = "SELECT 1 FROM django_durable_run c WHERE c.parent_id = j.run_id AND"
    child, item = f"{children} c.parent_path = j.path", f"{children} {is_item(d, 'c.parent_path', 'j.path')}"
    settled = d.later("-(%(settled)s)")
    came = f"""SELECT 1 FROM django_durable_event e WHERE e.run_id = j.run_id AND {d.is_line_of("e.name", "j.awaits")}
        AND e.consumed_at IS NULL AND e.sent_at <= {settled}"""
    going_on = f"(c.status NOT IN {TERMINAL} OR c.finished_at > {settled})"
    is_over = f"{is_some(child)} AND {is_none(f'{child} AND {going_on}')}"
    # How many are alive the index on live children tells; only where they are few enough are all of them looked at.
    few = f"(SELECT count(*) FROM ({item} AND {going_on}) AS going_on) <= {LOW_WATER}"
    are_few = f"{has_room(d)} AND {is_some(item)} AND {few}"
    can_wake = " OR ".join(
        (
            "r.wake_at IS NOT NULL",
            is_some(f"{waiting} 'event'"),
            is_some(f"{waiting} 'child' AND {is_some(child)}"),
            is_some(f"{waiting} 'map' AND {is_some(item)}"),
        )
    )
    return f"""
        SELECT id, problem FROM (
            SELECT r.id AS id, CASE
                WHEN r.cancel_requested_at <= {settled} AND r.phase <> 'compensating'
                    THEN 'waiting although it is to be cancelled'
                WHEN {is_some(f"{waiting} 'event' AND {is_some(came)}")} THEN 'waiting although its event has come'
                WHEN {is_some(f"{waiting} 'child' AND {is_over}")} THEN 'waiting although its child is over'
                WHEN {is_some(f"{waiting} 'map' AND {are_few}")}
                    THEN 'waiting although enough children of its map are over'
                WHEN NOT ({can_wake}) THEN 'waiting for nothing that could wake it'
                WHEN r.waiting_on NOT IN {AS_A_WHOLE} AND {is_none(f"{entry} IN ('waiting', 'retrying')")}
                    THEN 'waiting, and its journal does not say what for'
                END AS problem
            FROM django_durable_run r
            WHERE {in_window("r.id")} AND r.status = 'waiting' AND coalesce(r.queued_at, r.created_at) <= {settled}
            ) AS looked_at
        WHERE problem IS NOT NULL ORDER BY id LIMIT %(limit)s"""
