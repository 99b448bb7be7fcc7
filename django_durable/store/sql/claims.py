"""Claiming: queued → running with a lease, under a fresh random token."""

from __future__ import annotations

from ..dialects import Dialect
from . import claim_records
from .endings import TERMINAL
from .leases import CLAIM, QUEUED_OR_PAUSED
from .lines import ASLEEP, FREE, QUEUED, claimable, first_of_lines, first_of_queues, lines
from .waits import has_room, is_item


def lease(d: Dialect, picked: str) -> str:
    """Lease the runs that the CTE ``picked`` names."""
    worker = d.typed("worker", "uuid")
    # RETURNING may show what never changes (the input), but not the journal or the events: it reads them on the
    # snapshot from before the lock, and the run would wait for an event that is consumed already.
    return f"""
        WITH RECURSIVE {picked}
        UPDATE django_durable_run AS r
        SET status = 'running', lease_token = {d.new_token}, leased_by = {worker},
            lease_expires_at = {d.later("%(lease)s")}, claims = r.claims + 1,
            started_at = coalesce(r.started_at, {d.now}),
            started_by = CASE WHEN r.claims = 0 THEN {worker} ELSE r.started_by END, wake_at = NULL, waiting_on = ''
        FROM picked WHERE r.id = picked.id
        RETURNING {d.updated}.id, lease_token, workflow, attempt, max_attempts, phase, deadline_at, root_id, queue,
            priority, claims, cancel_requested_at, fingerprint, parent_id, {d.now_unread},
            (SELECT data FROM django_durable_payload p WHERE p.run_id = {d.updated}.id AND p.kind = 'input'),
            pause_requested_at, forked_from, CASE WHEN claims > 1 THEN {d.seconds_since("started_at")} END, limit_key
        """


def claim_ids(d: Dialect) -> str:
    """Claim those of ``ids`` that are still queued: what a queue hinted at, which may have been held since."""
    return _claim_named(d, d.among_ids("ids"))


def claim_id(d: Dialect) -> str:
    """The same of the one run ``id``: PostgreSQL's part of it takes nine tenths of the CPU."""
    return _claim_named(d, f"= {d.typed('id', 'uuid')}")


def _claim_named(d: Dialect, which: str) -> str:
    # QUEUED, said so that it is not the condition of an index: the one of what is ready would be read from end to end,
    # the whole backlog for a few ids, as long as no statistics say better.
    named = f"r.status || '' = 'queued' AND {FREE}"
    return lease(
        d,
        f"""
        picked AS MATERIALIZED (
            SELECT r.id FROM django_durable_run r
            WHERE r.id {which} AND {named} AND {claimable(d)} AND r.queue || '' {d.among("queues")}
            ORDER BY r.id {d.lock})""",
    )


def claim_next(d: Dialect) -> str:
    """Claim what is queued and what has come due, best first: by priority, then by who has waited longest."""
    is_due = f"{ASLEEP} AND r.wake_at <= {d.now} AND {FREE} AND {claimable(d)}"
    return lease(
        d,
        f"""
        {lines("asleep", d.names("queues", "q"), ASLEEP)},
        ready AS MATERIALIZED (
            SELECT r.id, r.priority, r.queued_at AS since
            FROM {first_of_queues(d, QUEUED, "r.priority DESC, r.queued_at")}),
        due AS MATERIALIZED (
            SELECT r.id, r.priority, r.wake_at AS since FROM {first_of_lines(d, "asleep", is_due, "r.wake_at")}),
        picked AS MATERIALIZED (
            SELECT id FROM (SELECT * FROM ready UNION ALL SELECT * FROM due) AS both_kinds
            ORDER BY priority DESC, since LIMIT %(limit)s)""",
    )


def claim_oldest(d: Dialect) -> str:
    """Claim what has been queued for longest, whatever its priority: best first, a backlog would hide it for ever."""
    return lease(
        d,
        f"""
        {lines("queued", d.names("queues", "q"), QUEUED)},
        heads AS MATERIALIZED (
            SELECT r.id, r.queued_at
            FROM {first_of_lines(d, "queued", f"{QUEUED} AND {claimable(d)}", "r.queued_at")}),
        picked AS MATERIALIZED (SELECT id FROM heads ORDER BY queued_at LIMIT %(limit)s)""",
    )


def hand_back(d: Dialect) -> str:
    """Running → queued for claims that were never started, as far as they are still ours."""
    # It waits for its rows: nobody else hands back what it skips before the lease lapses.
    return f"""
        WITH held AS MATERIALIZED (
            SELECT r.id FROM django_durable_run r
            WHERE r.status = 'running' AND EXISTS (
                SELECT 1 FROM {d.recordset("claims", "i", CLAIM)} WHERE i.id = r.id AND i.token = r.lease_token)
            ORDER BY r.id {d.wait_lock})
        UPDATE django_durable_run AS r
        SET status = {QUEUED_OR_PAUSED}, queued_at = {d.now},
            lease_token = NULL, leased_by = NULL, lease_expires_at = NULL
        FROM held WHERE r.id = held.id
        RETURNING {d.updated}.id"""


def next_due(d: Dialect, *, limited: bool) -> str:
    """When the next scheduled or waiting run of these queues comes due, and what time it is now. ``limited``: also of
    those that have a limit, for who looks for these as well."""
    return f"""
        WITH RECURSIVE {lines("asleep", d.names("queues", "q"), ASLEEP)}
        SELECT min(heads.wake_at), {d.now} FROM ({_heads(d, limited=limited)}) AS heads"""


def ahead(d: Dialect) -> str:
    """As ``next_due``, with or without a limit; and first whether any run is queued already.

    Whose workflow it is, or of a limited one whose queue, is left to the claim: the first that the index has answers.
    """
    queued = "SELECT 1 FROM django_durable_run r WHERE r.status = 'queued' AND r.limit_key"
    return f"""
        WITH RECURSIVE {lines("asleep", d.names("queues", "q"), ASLEEP)}
        SELECT EXISTS ({queued} IS NULL AND r.queue {d.among("queues")}) OR EXISTS ({queued} IS NOT NULL),
            min(heads.wake_at), {d.now}
        FROM ({_heads(d, limited=True)}) AS heads"""


def _heads(d: Dialect, *, limited: bool) -> str:
    """Of each line ``l`` the instant at which its next run comes due."""
    condition = ASLEEP if limited else f"{ASLEEP} AND {FREE}"
    return f"""
        SELECT (
            SELECT r.wake_at FROM django_durable_run r
            WHERE {condition} AND r.queue = l.queue AND r.priority = l.priority AND {claimable(d)}
            ORDER BY r.wake_at LIMIT 1) AS wake_at
        FROM asleep AS l"""


def claim_suspect(d: Dialect) -> str:
    """Claim one run that may have killed its process: only a process that works on nothing else asks for it.

    Those that were reaped together were queued at one instant: the one that was started first goes first.
    """
    return lease(
        d,
        f"""
        picked AS MATERIALIZED (
            SELECT r.id FROM django_durable_run r
            WHERE {QUEUED} AND r.suspect AND r.queue {d.among("queues")} AND r.workflow {d.among("workflows")}
            ORDER BY r.priority DESC, r.queued_at, r.id LIMIT %(limit)s {d.lock})""",
    )


def load_journal(d: Dialect) -> str:
    return f"""
        SELECT run_id, path, seq, kind, status, attempts, value, error, wake_at, awaits, undo
        FROM django_durable_journalentry WHERE run_id {d.among("ids")}"""


def keep_claims(d: Dialect) -> str:
    """Note who has made those claims (``claimed``) that are not their run's first."""
    return claim_records.keep(d, d.recordset("claimed", "c", claim_records.CLAIMED))


def keep_and_load(d: Dialect) -> str:
    """``keep_claims`` and ``load_journal`` in one, for databases whose CTEs can write.

    Not in the claim itself, where every first claim would pay for the plan of what it does not do. Nobody waits until
    it is on the disk: a server that crashes may forget who has made a claim, and the claim it does not.
    """
    kept = claim_records.keep(d, f"{d.recordset('claimed', 'c', claim_records.CLAIMED)} CROSS JOIN ({d.lazily}) AS s")
    return f"WITH kept AS ({kept}) {load_journal(d)}"


def load_events(d: Dialect) -> str:
    return f"""
        SELECT run_id, id, name, payload, sent_at FROM django_durable_event
        WHERE run_id {d.among("ids")} AND consumed_at IS NULL ORDER BY id"""


def load_children(d: Dialect) -> str:
    """The children that the runs wait for and that are over; those of a map once it may go on, and once only."""

    def at(kind: str, path: str, more: str = "") -> str:
        return f"""
            SELECT j.run_id, c.parent_path, c.id, c.status,
                (SELECT data FROM django_durable_payload p WHERE p.run_id = c.id AND p.kind = 'output'),
                (SELECT data FROM django_durable_payload p WHERE p.run_id = c.id AND p.kind = 'error')
            FROM django_durable_journalentry j JOIN django_durable_run c ON c.parent_id = j.run_id AND {path}
            WHERE j.run_id {d.among("ids")} AND j.kind = '{kind}' AND j.status = 'waiting'
                AND c.status IN {TERMINAL} {more}"""

    # Not with OR: who waits for one child would look at the thousands of a map that is over.
    noted = "SELECT 1 FROM django_durable_journalentry n WHERE n.run_id = j.run_id AND n.path = c.parent_path"
    items = at("map", is_item(d, "c.parent_path", "j.path"), f"AND {has_room(d)} AND NOT EXISTS ({noted})")
    return f"{at('child', 'c.parent_path = j.path')} UNION ALL {items}"


def load_errors(d: Dialect) -> str:
    return f"SELECT run_id, data FROM django_durable_payload WHERE kind = 'error' AND run_id {d.among_ids('ids')}"
