"""Limits: queued runs of a key start while fewer of it are leased than ``max_concurrency`` says, and fewer have begun
of late than ``rate`` says.

Nothing but rows of runs counts: those that are leased, since what a run holds ends with its lease, however that ends;
and those that were claimed for the first time in the period of the rate. They are counted by a statement that begins
after the key's row is locked; one statement that locks and counts would count on the snapshot from before it had
waited, and two workers would each start a run at limit 1 (models: limits.pml, variant CLAIM=1).
"""

from __future__ import annotations

from ..dialects import Dialect
from .claims import lease
from .lines import ASLEEP, claimable

BOUNDS = {"maximum": "integer", "starts": "integer", "seconds": "double precision"}
"""``max_concurrency`` and ``rate``, each NULL where there is none."""
LIMIT = {"workflow": "text", **BOUNDS}
"""The bounds by workflow, as the code of whoever asks says it; a workflow that is not named has none."""
GRANTED = {"key": "text", "place": "integer", **BOUNDS}
BEST_FIRST = "r.priority DESC, r.queued_at"
BEGUN, NEW = "r.started_at IS NOT NULL", "r.started_at IS NULL"
ENDING = "(r.cancel_requested_at IS NOT NULL OR r.phase IN ('compensating', 'on_failure'))"
"""In the words of the index durable_run_limited_ending. What is as good as over goes before all others of its key,
whatever their priority: who comes after a run finds done what that undoes, or leaves to its ``on_failure``. One that
the claimant may not take, another may, and its slot is kept free for it.

As a rule there are none, and statements that look for them take longer to plan. So the first look says whether there
are (``ends``); a claim that was told of none leaves a key alone that has one by then."""


def queued_keys(d: Dialect) -> str:
    """The keys that have queued runs, in order, up to ``limit`` after ``after``: a look into the index for each.

    Before them a row of NULL where runs with a limit have come due, and before that one where queued ones are ending:
    with the numbers 0 and -1.
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
        UNION ALL
        SELECT NULL, -1 WHERE EXISTS (SELECT 1 {_ending("IS NOT NULL")})
        ORDER BY number"""


def keys_of(d: Dialect) -> str:
    """The keys of those of ``ids`` that are queued, and whether there are queued runs that are ending, of any key."""
    return f"""
        SELECT DISTINCT h.limit_key, EXISTS (SELECT 1 {_ending("IS NOT NULL")}) FROM django_durable_run h
        WHERE h.id {d.among_ids("ids")} AND h.status = 'queued' AND h.limit_key IS NOT NULL"""


def mine(d: Dialect, *, suspect: bool) -> str:
    """Which runs ``r`` the claimant may claim; suspects only where it works on nothing else."""
    if suspect:
        return f"r.workflow {d.among('workflows')} AND r.queue {d.among('queues')} AND r.suspect"
    return f"{claimable(d)} AND r.queue {d.among('queues')}"


ANYBODYS = "NOT r.suspect"
"""For who only tells others of runs."""


def find_room(d: Dialect, condition: str, *, ends: bool = False) -> str:
    """Those of ``keys`` that have queued runs (for which ``condition`` holds) and room, longest not admitted first.

    A guess: only the claim counts under the lock. ``free`` more may be leased, ``fresh`` more begin; NULL: any number.
    ``ending`` of the queued ones go first.
    """
    queued = f"FROM django_durable_run r WHERE {_queued('k.name')} AND {condition}"
    begun = f"SELECT r.id {_begun('a.key', condition)}"
    count, ending, has_room = "", "", "free IS NULL OR free > 0"
    if ends:
        count, ending = f", ({_count_ending('k.name')}) AS ending", "h.ending, "
        may_end = f"SELECT r.id {_ending('= a.key')} AND {condition} LIMIT 1"
        has_room = f"free IS NULL OR free > ending OR (free > 0 AND ({may_end}) IS NOT NULL)"
    # A window function, so that what is counted is counted once and not again for each condition. And not EXISTS, for
    # which a database may rather read the whole table.
    return f"""
        SELECT * FROM (
            SELECT h.key, m.maximum, m.starts, m.seconds, l.key IS NOT NULL AS is_known,
                m.maximum - h.leased AS free, {ending}{_fresh(d, "h.key", "m")} AS fresh,
                row_number() OVER (ORDER BY l.admitted_at NULLS FIRST, h.key) AS place
            FROM (
                SELECT k.name AS key, ({_leased("k.name")}) AS leased{count},
                    (SELECT r.workflow {queued} ORDER BY {BEST_FIRST} LIMIT 1) AS workflow
                FROM {d.names("keys", "k")}) AS h
            LEFT JOIN {d.recordset("limits", "m", LIMIT)} ON m.workflow = h.workflow
            LEFT JOIN django_durable_limit l ON l.key = h.key
            WHERE h.workflow IS NOT NULL) AS a
        WHERE ({has_room})
            AND (fresh IS NULL OR fresh > 0 OR ({begun} ORDER BY {BEST_FIRST} LIMIT 1) IS NOT NULL)
        ORDER BY place LIMIT %(limit)s"""


def next_opening(d: Dialect) -> str:
    """When the first of ``keys`` whose rate is full may start another run, and what time it is now."""
    new = f"FROM django_durable_run r WHERE {_queued('k.name')} AND {NEW} AND {ANYBODYS} ORDER BY {BEST_FIRST} LIMIT 1"
    opens_at = d.after("min(x.started_at)", "m.seconds")
    return f"""
        SELECT min(opens_at), {d.now} FROM (
            SELECT (
                SELECT CASE WHEN count(*) >= m.starts THEN {opens_at} END
                FROM django_durable_run x WHERE {_recent(d, "h.key", "m")}) AS opens_at
            FROM (SELECT k.name AS key, (SELECT r.workflow {new}) AS workflow FROM {d.names("keys", "k")}) AS h
            JOIN {d.recordset("limits", "m", LIMIT)} ON m.workflow = h.workflow
            WHERE m.starts IS NOT NULL) AS openings"""


def admit(d: Dialect, condition: str, *, ends: bool = False) -> str:
    """The runs that may start now of those of ``keys`` with room: an id for each free slot. It reserves nothing."""
    return f"""
        WITH room AS MATERIALIZED ({find_room(d, condition, ends=ends)}),
        {_ranked(d, condition, ends=ends, locks=False)}
        SELECT id, queue, priority FROM ranked WHERE free IS NULL OR number <= free
        ORDER BY number, place LIMIT %(limit)s"""


def _ranked(d: Dialect, condition: str, *, ends: bool, locks: bool = True) -> str:
    """CTEs: the queued runs of each key in ``room``, numbered best first; no more new ones than its rate lets begin.

    A run that goes on does not wait for the rate: it is looked for by itself, past a backlog of new ones. So are those
    that end, which come before the others: these are numbered after all of them, also after those that were not found.

    Of each key only about as many are locked as it has room for: a lock is a write, and all keys may have a backlog.
    Among the first ``free`` of any kind is whatever may be taken beside those that end or go on; and with a rate, among
    as many as may begin and those that go on.
    """
    where = f"{_queued('room.key')} AND {condition}"
    free = d.least("%(limit)s", "room.free")
    begun = f"SELECT count(*) FROM (SELECT 1 {_begun('room.key', condition)} LIMIT %(limit)s) AS b"
    paced = f"CASE WHEN room.fresh IS NOT NULL THEN room.fresh + ({begun}) END"

    def first(which: str, most: str = free) -> str:
        return d.first_runs(which, BEST_FIRST, locks=locks, most=most)

    columns = (
        f"r.id, r.queue, r.priority, r.queued_at, {BEGUN} AS has_begun, room.key, room.place, room.free, room.fresh"
    )
    stopping, number = "", f"row_number() OVER (PARTITION BY r.key ORDER BY {BEST_FIRST}, r.id)"
    if ends:
        columns += f", room.ending, {ENDING} AS is_ending"
        stopping = f"""
            SELECT {columns} FROM (SELECT * FROM room WHERE ending > 0) AS room
                {first(f"{where} AND {ENDING}")}
            UNION"""
        found = "count(CASE WHEN r.is_ending THEN 1 END) OVER (PARTITION BY r.key)"
        others = f"CASE WHEN NOT r.is_ending AND r.ending > {found} THEN r.ending - {found} ELSE 0 END"
        number = f"row_number() OVER (PARTITION BY r.key ORDER BY r.is_ending DESC, {BEST_FIRST}, r.id) + {others}"
    return f"""
        any_kind AS MATERIALIZED (
            SELECT room.*, {d.least(free, paced)} AS most FROM room WHERE fresh IS NULL OR fresh > 0),
        paced AS (SELECT * FROM room WHERE fresh IS NOT NULL),
        found AS MATERIALIZED ({stopping}
            SELECT {columns}
            FROM any_kind AS room {first(where, "room.most")}
            UNION
            SELECT {columns}
            FROM paced AS room {first(f"{where} AND {BEGUN}")}),
        counted_in AS (
            SELECT r.*, row_number() OVER (PARTITION BY r.key, r.has_begun ORDER BY {BEST_FIRST}, r.id) AS ordinal
            FROM found AS r),
        ranked AS MATERIALIZED (
            SELECT r.*, {number} AS number
            FROM counted_in AS r WHERE r.has_begun OR r.fresh IS NULL OR r.ordinal <= r.fresh)"""


def make_limits(d: Dialect) -> str:
    """In the order of the keys, and committed at once: who makes the same ones waits for no transaction."""
    return f"""
        INSERT INTO django_durable_limit (key) SELECT k.name FROM {d.names("keys", "k")} WHERE 1 = 1 ORDER BY k.name
        ON CONFLICT (key) DO NOTHING"""


def lock_limits(d: Dialect) -> str:
    """Of a key that somebody else holds, or has pruned, nothing is claimed."""
    return f"SELECT l.key FROM django_durable_limit l WHERE l.key {d.among('keys')} ORDER BY l.key {d.lock}"


def claim_granted(d: Dialect, condition: str, *, ends: bool = False) -> str:
    """Under the locks: count what is leased and has begun, and claim as much as there is room for; of each key what
    ends, then its best first.

    Keys take turns (``place``): the backlog of one takes no slot from another.
    """
    count = f"({_count_ending('g.key')}) AS ending, " if ends else ""
    untold = "" if ends else f"WHERE (SELECT r.id {_ending('= g.key')} LIMIT 1) IS NULL"
    return lease(
        d,
        f"""
        room AS MATERIALIZED (
            SELECT * FROM (
                SELECT g.key, g.place, g.maximum - ({_leased("g.key")}) AS free,
                    {count}{_fresh(d, "g.key", "g")} AS fresh
                FROM {d.recordset("granted", "g", GRANTED)} {untold}) AS counted
            WHERE free IS NULL OR free > 0),
        {_ranked(d, condition, ends=ends)},
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


def _ending(which: str) -> str:
    return f"FROM django_durable_run r WHERE r.status = 'queued' AND r.limit_key {which} AND {ENDING}"


def _count_ending(key: str) -> str:
    """So many as can be claimed at a time, where there are more."""
    return f"SELECT count(*) FROM (SELECT 1 {_ending(f'= {key}')} LIMIT %(limit)s) AS e"


def _begun(key: str, condition: str) -> str:
    return f"FROM django_durable_run r WHERE {_queued(key)} AND {BEGUN} AND {condition}"


def _fresh(d: Dialect, key: str, bounds: str) -> str:
    """How many runs of the key may begin now by the rate in ``bounds``; NULL where that has none."""
    begun = f"SELECT count(*) FROM django_durable_run x WHERE {_recent(d, key, bounds)}"
    return f"CASE WHEN {bounds}.starts IS NOT NULL THEN {bounds}.starts - ({begun}) END"


def _recent(d: Dialect, key: str, bounds: str) -> str:
    return f"x.limit_key = {key} AND x.started_at > {d.later(f'-({bounds}.seconds)')}"
