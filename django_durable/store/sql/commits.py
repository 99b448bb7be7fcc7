"""The commit path: what many runs made durable in one go, each under its own token.

On PostgreSQL the fence, the journal rows that come and go, the outcomes and their payloads are one statement. What must
look at the world after the fence (suspensions) or is rare (children, events) follows in the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from ..dialects import Dialect
from .endings import TERMINAL
from .leases import CLAIM, IS_PAUSING, QUEUED_OR_PAUSED, ours
from .starts import FALSE, NEW_RUN, NEW_TAG, insert_runs
from .waits import has_reason

ENTRY = {
    "run_id": "uuid",
    "path": "text",
    "seq": "integer",
    "kind": "text",
    "status": "text",
    "attempts": "smallint",
    "value": "text",
    "error": "text",
    "seconds": "double precision",
    "wake_at": "timestamptz",
    "wake_after": "double precision",
    "awaits": "text",
    "undo": "boolean",
}
CLEARED = {"id": "uuid"}
FORGOTTEN = {"run_id": "uuid", "path": "text"}
LOGGED = {
    "run_id": "uuid",
    "number": "integer",
    "at": "timestamptz",
    "level": "smallint",
    "scope": "text",
    "message": "text",
    "place": "bigint",
    "again": "boolean",
    "attempt": "smallint",
    "seconds": "double precision",
}
PAYLOAD = {"run_id": "uuid", "kind": "text", "data": "text"}
LEAVING = {
    "run_id": "uuid",
    "status": "text",
    "block_reason": "text",
    "fingerprint": "text",
    "phase": "text",
    "undoes": "boolean",
}
SUSPENDING = {
    "run_id": "uuid",
    "waiting_on": "text",
    "wake_at": "timestamptz",
    "wake_after": "double precision",
    "attempt": "smallint",
    "in_time": "boolean",
}
CHILD_TAG = {"parent_id": "uuid", **NEW_TAG}
CONSUMED = {"run_id": "uuid", "event_id": "bigint", "path": "text"}
ANSWER = {"run_id": "uuid", "path": "text", "response": "text"}


def fence(d: Dialect, ids: str = "") -> str:
    """Lock the runs that are still ours, in primary key order, without waiting for a row that somebody holds. ``ids``:
    as for ``ours``."""
    return f"""
        SELECT r.id, r.lease_token AS token, r.cancel_requested_at IS NOT NULL AS cancelling,
            {IS_PAUSING} AS pausing
        FROM {ours(d, ids)} ORDER BY r.id {d.lock_runs}"""


def insert_entries(d: Dialect, *, are_new: bool = False) -> str:
    """``are_new``: fails where one of them is there already, which is less for PostgreSQL to do."""
    # Selected from the input joined to the fenced runs: the other way round, UPDATE … FROM semantics would
    # keep one row for each run and silently lose a branch's entry.
    # What has finished and is written again (a point of no return was passed) finished when it did.
    changed = """
        ON CONFLICT (run_id, path) DO UPDATE SET
            status = excluded.status, attempts = excluded.attempts, value = excluded.value, error = excluded.error,
            finished_at = CASE WHEN excluded.finished_at IS NOT NULL
                THEN coalesce(j.finished_at, excluded.finished_at) END,
            wake_at = excluded.wake_at, awaits = excluded.awaits,
            undo = excluded.undo, token = excluded.token"""
    return f"""
        INSERT INTO django_durable_journalentry AS j (
            run_id, path, seq, kind, status, attempts, value, error, started_at, finished_at, wake_at, awaits, undo,
            token)
        SELECT h.id, e.path, e.seq, e.kind, e.status, e.attempts, e.value, e.error,
            coalesce({d.later("-(e.seconds)")}, {d.now}),
            CASE WHEN e.status IN ('succeeded', 'failed') THEN {d.now} END,
            coalesce(e.wake_at, {d.later("e.wake_after")}), coalesce(e.awaits, ''), coalesce(e.undo, {FALSE}), h.token
        FROM {d.recordset("entries", "e", ENTRY)} JOIN held h ON h.id = e.run_id WHERE 1 = 1
        {"" if are_new else changed}"""


def forget_entries(d: Dialect) -> str:
    """Prune entries: turns of a loop that are over."""
    return f"""
        DELETE FROM django_durable_journalentry AS j
        WHERE (j.run_id, j.path) IN (
            SELECT h.id, f.path FROM {d.recordset("forgotten", "f", FORGOTTEN)} JOIN held h ON h.id = f.run_id)"""


def upsert_payloads(d: Dialect) -> str:
    # What was unwanted before may not be cancelled yet.
    data = """CASE WHEN excluded.kind = 'unwanted' THEN django_durable_payload.data || '\n' || excluded.data
        ELSE excluded.data END"""
    return f"""
        INSERT INTO django_durable_payload (run_id, kind, data)
        SELECT h.id, p.kind, p.data
        FROM {d.recordset("payloads", "p", PAYLOAD)} JOIN held h ON h.id = p.run_id WHERE 1 = 1
        ON CONFLICT (run_id, kind) DO UPDATE SET data = {data}"""


def insert_log(d: Dialect) -> str:
    """Behind the lines that the run has. What is said ``again`` is left out where the run has that as well.

    An atomic step in a branch commits beside what the other branches do. Where it has added lines after the snapshot of
    this statement, and before the fence that is a part of it, these are not seen: the numbers are taken, and the
    statement fails.
    """
    # Not EXISTS, which PostgreSQL may answer out of a table of all lines of all runs, made for this.
    known = "(SELECT 1 FROM django_durable_logline k WHERE k.run_id = h.id AND k.place = l.place LIMIT 1) IS NOT NULL"
    last = "SELECT max(k.number) FROM django_durable_logline k WHERE k.run_id = h.id"
    # Without gaps: by the numbers it is known how many lines there are.
    number = f"coalesce(({last}), 0) + row_number() OVER (PARTITION BY h.id ORDER BY l.number)"
    return f"""
        INSERT INTO django_durable_logline (
            run_id, number, at, level, scope, message, place, attempt, seconds)
        SELECT h.id, {number}, l.at, l.level, coalesce(l.scope, ''), l.message, l.place, l.attempt, l.seconds
        FROM {d.recordset("logged", "l", LOGGED)} JOIN held h ON h.id = l.run_id
        WHERE NOT (coalesce(l.again, {FALSE}) AND {known})
        RETURNING run_id, number"""


def shorten_log() -> str:
    return "DELETE FROM django_durable_logline WHERE run_id = %(run_id)s AND number <= %(upto)s"


def load_notes(d: Dialect) -> str:
    """What runs were annotated with before. In a statement after the fence, which keeps others from adding to it."""
    return f"SELECT run_id, data FROM django_durable_payload WHERE kind = 'notes' AND run_id {d.among_ids('ids')}"


def leave(d: Dialect, *, may_undo: bool = True, more: str = "") -> str:
    """Running → over, blocked, paused or queued. A cancellation that was acknowledged first wins over the outcome; but
    where the code does not fit what is to be undone, the run waits for code that does.

    ``may_undo``: whether there are rows with something to undo. ``more``: what of the fence is to be returned besides.
    """
    cannot_undo = "o.status = 'blocked' AND r.phase = 'compensating'"
    cancels = f"r.cancel_requested_at IS NOT NULL AND o.status <> 'queued' AND NOT ({cannot_undo})"
    over, is_queued = f"({cancels} OR o.status IN {TERMINAL})", "o.status = 'queued'"
    cancelled, phase = "'cancelled'", "coalesce(o.phase, r.phase)"
    if may_undo:
        owes = f"coalesce(o.undoes, {FALSE})"
        undoes = f"({cancels} AND {owes})"
        over, is_queued = f"NOT {undoes} AND {over}", f"{undoes} OR {is_queued}"
        cancelled = f"CASE WHEN {owes} THEN 'queued' ELSE 'cancelled' END"
        phase = f"CASE WHEN {undoes} THEN 'compensating' ELSE {phase} END"
    # Handed back as it is: that clears nobody. What was journaled with it has (``clear_suspicion``).
    stays = "o.status = 'queued' AND o.phase IS NULL"
    return f"""
        UPDATE django_durable_run AS r
        SET status = CASE WHEN {cancels} THEN {cancelled}
                WHEN o.status = 'queued' THEN {QUEUED_OR_PAUSED} ELSE o.status END,
            finished_at = CASE WHEN {over} THEN {d.now} END,
            queued_at = CASE WHEN {is_queued} THEN {d.now} ELSE r.queued_at END, phase = {phase},
            fingerprint = coalesce(o.fingerprint, ''),
            block_reason = CASE WHEN {cancels} THEN '' ELSE coalesce(o.block_reason, '') END,
            suspect = r.suspect AND {stays}, crashes = CASE WHEN {stays} THEN r.crashes ELSE 0 END,
            lease_token = NULL, leased_by = NULL, lease_expires_at = NULL
        FROM {d.recordset("leaving", "o", LEAVING)} JOIN held h ON h.id = o.run_id
        WHERE r.id = o.run_id
        RETURNING {more}{d.updated}.id, {d.updated}.status, parent_id, queue, priority, parent_path"""


def insert_children(d: Dialect) -> str:
    # A batch that is sent again after a lost connection finds its children there: their ids are ours alone.
    source = f"{d.recordset('children', 'n', NEW_RUN)} JOIN held h ON h.id = n.parent_id WHERE 1 = 1"
    return insert_runs(d, source) + " ON CONFLICT (id) DO NOTHING RETURNING id, queue, priority, status, limit_key"


def insert_child_inputs(d: Dialect) -> str:
    return f"""
        INSERT INTO django_durable_payload (run_id, kind, data) SELECT n.id, 'input', n.input
        FROM {d.recordset("children", "n", NEW_RUN)} JOIN held h ON h.id = n.parent_id WHERE 1 = 1
        ON CONFLICT (run_id, kind) DO NOTHING"""


def insert_child_tags(d: Dialect) -> str:
    return f"""
        INSERT INTO django_durable_tag (run_id, name) SELECT t.run_id, t.name
        FROM {d.recordset("tags", "t", CHILD_TAG)} JOIN held h ON h.id = t.parent_id WHERE 1 = 1
        ON CONFLICT (run_id, name) DO NOTHING"""


def cancel_children(d: Dialect) -> str:
    """Children that their parent starts after its cancellation went down the tree: over, as if it had met them."""
    return f"""
        UPDATE django_durable_run AS r
        SET status = 'cancelled', finished_at = {d.now}, cancel_requested_at = {d.now}, wake_at = NULL
        FROM {d.recordset("children", "n", NEW_RUN)} JOIN held h ON h.id = n.parent_id
        WHERE r.id = n.id AND r.status IN ('scheduled', 'queued') AND r.claims = 0"""


def consume_events(d: Dialect) -> str:
    return f"""
        UPDATE django_durable_event AS e SET consumed_at = {d.now}, consumed_by = c.path
        FROM {d.recordset("consumed", "c", CONSUMED)} JOIN held h ON h.id = c.run_id
        WHERE e.id = c.event_id AND e.run_id = c.run_id AND e.consumed_at IS NULL"""


def answer_events(d: Dialect) -> str:
    """Found by the path of the wait that took it. The first answer stands."""
    return f"""
        UPDATE django_durable_event AS e SET answered_at = {d.now}, response = a.response
        FROM {d.recordset("answers", "a", ANSWER)} JOIN held h ON h.id = a.run_id
        WHERE e.run_id = a.run_id AND e.consumed_by = a.path AND e.answered_at IS NULL"""


def suspend(d: Dialect) -> str:
    """Running → waiting, or straight to queued where there is a reason to go on, or paused where that was asked for.

    A statement of its own after the fence: it starts when the row's lock is held, so that what was committed
    before is seen, and whoever commits after finds the row locked and wakes it then.
    """
    # It bounds the function's waits only: a retry of on_failure after it has passed would be due at once, for ever.
    # Once the function has returned there is none any more: nothing else would say that the run was in time.
    deadline = "CASE WHEN s.in_time THEN NULL ELSE r.deadline_at END"
    bound = f"CASE WHEN r.phase = 'forward' THEN {deadline} END"
    first = d.least("s.wake_at", d.later("s.wake_after"))
    wake_at = d.least(first, bound)
    goes_on = has_reason(d)
    return f"""
        UPDATE django_durable_run AS r
        SET status = CASE WHEN {IS_PAUSING} THEN 'paused' WHEN {goes_on} THEN 'queued' ELSE 'waiting' END,
            queued_at = {d.now}, wake_at = CASE WHEN {goes_on} THEN NULL ELSE {wake_at} END,
            deadline_at = {deadline},
            waiting_on = s.waiting_on, attempt = coalesce(s.attempt, r.attempt),
            suspect = (1 = 0), crashes = 0, lease_token = NULL, leased_by = NULL, lease_expires_at = NULL
        FROM {d.recordset("suspending", "s", SUSPENDING)} JOIN held h ON h.id = s.run_id
        WHERE r.id = s.run_id AND r.id {d.in_few("SELECT f.id FROM held f")}
        RETURNING {d.updated}.id, {d.updated}.status, parent_id, queue, priority"""


def clear_suspicion(d: Dialect) -> str:
    """A newly journaled step clears the run that made it."""
    return f"""
        UPDATE django_durable_run AS r SET suspect = (1 = 0), crashes = 0
        FROM {d.recordset("cleared", "c", CLEARED)} JOIN held h ON h.id = c.id
        WHERE r.id = h.id AND r.suspect"""


def write_at_once(
    d: Dialect, given: Collection[str], *, are_new: bool = False, may_undo: bool = True, ids: str = ""
) -> str:
    """Fence, journal with what it forgets, payloads, log and outcomes in one statement, for databases whose CTEs can
    write. Each row ends with the number of the run's last line of the log, where there are ``logged``.

    ``given`` names the record sets that have rows: to plan a part costs far more than the rows that it has not.
    ``are_new``: as for ``insert_entries``. ``may_undo``: as for ``leave``, which few have, and without it the statement
    is short enough for psycopg. ``ids``: as for ``ours``, where there are several runs.
    The parts see one snapshot and none of each other's rows; no row is written by two of them.
    """
    parts: dict[str, Callable[[Dialect], str]] = {
        "entries": partial(insert_entries, are_new=are_new),
        "forgotten": forget_entries,
        "payloads": upsert_payloads,
        "logged": insert_log,
        "leaving": partial(leave, may_undo=may_undo, more="h.cancelling, h.pausing, " if ids else ""),
    }
    written = "".join(f", {name} AS ({part(d)})" for name, part in parts.items() if name in given)
    found = f"{d.as_key('h.id')}, h.cancelling, h.pausing"
    last = ", (SELECT max(l.number) FROM logged l WHERE l.run_id = h.id)" if "logged" in given else ""
    if "leaving" not in given:
        told = f"SELECT {found}{last} FROM held h"
    elif not ids:
        told = f"SELECT {found}, {_left('o')}{last} FROM held h LEFT JOIN leaving o ON o.id = h.id"
    else:
        # Not joined: PostgreSQL expects one row of each, and would compare each with each.
        told = f"""
            SELECT {found}, {_left("h")}{last} FROM leaving h
            UNION ALL SELECT {found}, NULL, NULL, NULL, NULL, NULL{last} FROM held h
            WHERE h.id NOT IN (SELECT o.id FROM leaving o)"""
    return f"""
        WITH held AS MATERIALIZED ({fence(d, ids)}){written}
        {told}"""


def _left(alias: str) -> str:
    """What is told of a run that has left us."""
    return ", ".join(f"{alias}.{column}" for column in ("status", "parent_id", "queue", "priority", "parent_path"))


def with_held(d: Dialect, statement: str) -> str:
    """``statement`` for the runs that the fence of this transaction has locked (parameter ``held``)."""
    return f"WITH held AS (SELECT i.id, i.token FROM {d.recordset('held', 'i', CLAIM)}) {statement}"
