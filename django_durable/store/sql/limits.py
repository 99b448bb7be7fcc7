"""Limits: queued runs of a key start while fewer of it are leased than ``max_concurrency`` says.

Nothing but leased rows counts: what a run holds ends with its lease, however that ends. They are counted by a statement
that begins after the key's row is locked; one statement that locks and counts would count on the snapshot from before
it had waited, and two workers would each start a run at limit 1 (models: limits.pml, variant CLAIM=1).
"""

from __future__ import annotations

from ..dialects import Dialect
from .claims import lease
from .lines import ASLEEP, claimable

LIMIT = {"workflow": "text", "maximum": "integer"}
"""``max_concurrency`` by workflow, as the code of whoever asks says it; a workflow that is not named has none."""
GRANTED = {"key": "text", "maximum": "integer", "place": "integer"}
BEST_FIRST = "r.priority DESC, r.queued_at"


def queued_keys(d: Dialect) -> str:
    """The keys that have queued runs, in order, up to ``limit`` after ``after``: a look into the index for each.

    Before them a row of NULL where runs with a limit have come due.
    """
    first = "SELECT min(r.limit_key) FROM django_durable_run r WHERE r.status = 'queued' AND r.limit_key >"
    return f"""
        WITH RECURSIVE keys (name, number) AS (
            SELECT ({first} %(after)s), 1
            UNION ALL
            SELECT ({first} k.name), k.number + 1 FROM keys k WHERE k.name IS NOT NULL AND k.number < %(limit)s)
        SELECT name, number FROM keys WHERE name IS NOT NULL
        UNION ALL
        SELECT NULL, 0 WHERE EXISTS (SELECT 1 FROM django_durable_run r WHERE {_due(d)})
        ORDER BY number"""


def keys_of(d: Dialect) -> str:
    """The keys of those of ``ids`` that are queued."""
    return f"""
        SELECT DISTINCT r.limit_key FROM django_durable_run r
        WHERE r.id {d.among("ids")} AND r.status = 'queued' AND r.limit_key IS NOT NULL"""


def mine(d: Dialect, *, suspect: bool) -> str:
    """Which runs ``r`` the claimant may claim; suspects only where it works on nothing else."""
    if suspect:
        return f"r.workflow {d.among('workflows')} AND r.queue {d.among('queues')} AND r.suspect"
    return f"{claimable(d)} AND r.queue {d.among('queues')}"


ANYBODYS = "NOT r.suspect"
"""For who only tells others of runs."""


def find_room(d: Dialect, condition: str) -> str:
    """Those of ``keys`` that have queued runs (for which ``condition`` holds) and room, longest not admitted first.

    A guess: only the claim counts under the lock. ``free`` is NULL where there is no limit any more.
    """
    first = f"FROM django_durable_run r WHERE {_queued('k.name')} AND {condition} ORDER BY {BEST_FIRST} LIMIT 1"
    return f"""
        SELECT h.key, m.maximum, m.maximum - h.leased AS free, l.key IS NOT NULL AS is_known,
            row_number() OVER (ORDER BY l.admitted_at NULLS FIRST, h.key) AS place
        FROM (
            SELECT k.name AS key, (SELECT r.workflow {first}) AS workflow, ({_leased("k.name")}) AS leased
            FROM {d.names("keys", "k")}) AS h
        LEFT JOIN {d.recordset("limits", "m", LIMIT)} ON m.workflow = h.workflow
        LEFT JOIN django_durable_limit l ON l.key = h.key
        WHERE h.workflow IS NOT NULL AND (m.maximum IS NULL OR h.leased < m.maximum)
        ORDER BY place LIMIT %(limit)s"""


def admit(d: Dialect, condition: str) -> str:
    """The runs that may start now of those of ``keys`` with room: an id for each free slot. It reserves nothing."""
    where = f"{_queued('room.key')} AND {condition}"
    return f"""
        WITH room AS MATERIALIZED ({find_room(d, condition)}),
        ranked AS (
            SELECT r.id, r.queue, r.priority, room.place, room.free,
                row_number() OVER (PARTITION BY room.key ORDER BY {BEST_FIRST}, r.id) AS number
            FROM room {d.first_runs(where, BEST_FIRST, locks=False)})
        SELECT id, queue, priority FROM ranked WHERE free IS NULL OR number <= free
        ORDER BY number, place LIMIT %(limit)s"""


def make_limits(d: Dialect) -> str:
    """In the order of the keys, and committed at once: who makes the same ones waits for no transaction."""
    return f"""
        INSERT INTO django_durable_limit (key) SELECT k.name FROM {d.names("keys", "k")} WHERE 1 = 1 ORDER BY k.name
        ON CONFLICT (key) DO NOTHING"""


def lock_limits(d: Dialect) -> str:
    """Of a key that somebody else holds, or has pruned, nothing is claimed."""
    return f"SELECT l.key FROM django_durable_limit l WHERE l.key {d.among('keys')} ORDER BY l.key {d.lock}"


def claim_granted(d: Dialect, condition: str) -> str:
    """Under the locks: count what is leased, and claim as much as there is room for; of each key its best first.

    Keys take turns (``place``): the backlog of one takes no slot from another.
    """
    where = f"{_queued('room.key')} AND {condition}"
    return lease(
        d,
        f"""
        room AS MATERIALIZED (
            SELECT * FROM (
                SELECT g.key, g.place, g.maximum - ({_leased("g.key")}) AS free
                FROM {d.recordset("granted", "g", GRANTED)}) AS counted
            WHERE free IS NULL OR free > 0),
        ranked AS MATERIALIZED (
            SELECT r.id, room.place, room.free,
                row_number() OVER (PARTITION BY room.key ORDER BY {BEST_FIRST}, r.id) AS number
            FROM room {d.first_runs(where, BEST_FIRST)}),
        picked AS MATERIALIZED (
            SELECT id FROM ranked WHERE free IS NULL OR number <= free ORDER BY number, place LIMIT %(limit)s)""",
    )


def note_admitted(d: Dialect) -> str:
    return f"UPDATE django_durable_limit SET admitted_at = {d.now} WHERE key {d.among('keys')}"


def promote_limited(d: Dialect) -> str:
    """Due → queued: a claim under a limit takes what is queued only."""
    return f"""
        WITH picked AS MATERIALIZED (
            SELECT r.id FROM django_durable_run r
            WHERE {_due(d)} ORDER BY r.wake_at LIMIT %(limit)s {d.lock_runs})
        UPDATE django_durable_run AS r
        SET status = 'queued', queued_at = {d.now}, wake_at = NULL, waiting_on = ''
        FROM picked WHERE r.id = picked.id
        RETURNING {d.updated}.id"""


def find_idle(d: Dialect) -> str:
    """Limits that nobody has needed for ``seconds``. One that is needed again at this moment is made anew."""
    return f"""
        SELECT l.id FROM django_durable_limit l
        WHERE (l.admitted_at IS NULL OR l.admitted_at <= {d.later("-(%(seconds)s)")}) AND NOT EXISTS (
            SELECT 1 FROM django_durable_run r WHERE r.status IN ('queued', 'running') AND r.limit_key = l.key)
        LIMIT %(limit)s"""


def _due(d: Dialect) -> str:
    return f"{ASLEEP} AND r.limit_key IS NOT NULL AND r.wake_at <= {d.now}"


def _queued(key: str) -> str:
    return f"r.status = 'queued' AND r.limit_key = {key}"


def _leased(key: str) -> str:
    return f"SELECT count(*) FROM django_durable_run x WHERE x.status = 'running' AND x.limit_key = {key}"
