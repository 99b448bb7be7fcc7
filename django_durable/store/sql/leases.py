"""Leases: renewed by the heartbeat, given back at a release, taken away by the reaper."""

from __future__ import annotations

from ..dialects import Dialect
from . import claim_records

CLAIM = {"id": "uuid", "token": "uuid"}

# Whoever was asked to pause while it ran comes to rest wherever else it would have been queued; a cancellation that was
# acknowledged is met first.
IS_PAUSING = "(r.pause_requested_at IS NOT NULL AND r.cancel_requested_at IS NULL)"
QUEUED_OR_PAUSED = f"CASE WHEN {IS_PAUSING} THEN 'paused' ELSE 'queued' END"

# Something is done that a compensation would undo, and none was tried.
OWES = """EXISTS (
    SELECT 1 FROM django_durable_journalentry j WHERE j.run_id = r.id AND j.undo AND NOT EXISTS (
        SELECT 1 FROM django_durable_journalentry u
        WHERE u.run_id = j.run_id AND u.path = j.path || '%%undo' AND u.status IN ('succeeded', 'failed')))"""


def ours(d: Dialect, ids: str = "") -> str:
    """The runs ``r`` of ``claims`` that are still ours; to be followed by ORDER BY. ``ids``: a parameter that names the
    same runs, of who commits often: JSON takes longer to be read."""
    claims, again = (d.recordset("claims", alias, CLAIM) for alias in "ic")
    found = f"""django_durable_run r JOIN {claims} ON i.id = r.id WHERE r.lease_token = i.token"""
    if d.is_one_row("claims"):
        return found
    return f"{found} AND r.id {d.among_ids(ids) if ids else d.in_few(f'SELECT c.id FROM {again}')}"


def renew(d: Dialect) -> str:
    """Extend the leases of the claims that are still ours. A row that somebody holds is left for the next beat."""
    return f"""
        WITH held AS MATERIALIZED (
            SELECT r.id FROM {ours(d)} ORDER BY r.id {d.lock_runs})
        UPDATE django_durable_run AS r SET lease_expires_at = {d.later("%(lease)s")}
        FROM held WHERE r.id = held.id
        RETURNING lease_token, cancel_requested_at, pause_requested_at"""


def still_held(d: Dialect) -> str:
    """Which of these claims are still ours, whether somebody holds their rows or not."""
    return f"""
        SELECT r.lease_token FROM {ours(d)}"""


def _take_away(d: Dialect, condition: str) -> str:
    # A run that was alone in its process (suspect and running) and died with it has killed it; one that died in
    # company is only suspect. A process that still beats has not died: its run was merely taken from it.
    dead = f"""NOT EXISTS (
        SELECT 1 FROM django_durable_worker w WHERE w.id = r.leased_by AND w.stopped_at IS NULL
        AND w.heartbeat_at > {d.later("-(%(silence)s)")} AND %(presumed_alive)s)"""
    crashed = "lapsed.is_guilty AND r.crashes + 1 >= %(max_crashes)s"
    # A cancellation that was acknowledged first wins, as it does over every other end; what there is to undo is left to
    # the person who looks after the crash.
    cancels = f"{crashed} AND r.cancel_requested_at IS NOT NULL AND NOT {OWES}"
    lapsed = f"""
        WITH lapsed AS MATERIALIZED (
            SELECT r.id, {dead} AS is_dead, r.suspect AND {dead} AS is_guilty
            FROM django_durable_run r WHERE {condition}
            ORDER BY r.id LIMIT %(limit)s {d.lock_runs})"""
    update = f"""
        UPDATE django_durable_run AS r
        SET status = CASE WHEN {cancels} THEN 'cancelled' WHEN {crashed} THEN 'blocked' ELSE {QUEUED_OR_PAUSED} END,
            finished_at = CASE WHEN {cancels} THEN {d.now} END,
            block_reason = CASE WHEN {crashed} AND NOT ({cancels}) THEN 'crashed' ELSE '' END,
            crashes = r.crashes + CASE WHEN lapsed.is_guilty THEN 1 ELSE 0 END,
            suspect = r.suspect OR lapsed.is_dead,
            queued_at = {d.now}, lease_token = NULL, leased_by = NULL, lease_expires_at = NULL
        FROM lapsed WHERE r.id = lapsed.id
        RETURNING {d.updated}.id, queue, priority, status, {d.updated}.suspect, workflow, parent_id, parent_path,
            claims, started_by, started_at"""
    if not d.has_writing_ctes:
        return f"{lapsed} {update}"
    return f"""
        {lapsed}, taken AS ({update}), lost AS ({claim_records.lose(d, "taken AS c")})
        SELECT * FROM taken"""


def is_any_held() -> str:
    """A row where a run is worked on."""
    return "SELECT 1 FROM django_durable_run r WHERE r.status = 'running' LIMIT 1"


def lose_claims(d: Dialect) -> str:
    """What taking leases away does itself where CTEs can write: note which claims have lost theirs (``taken``)."""
    return claim_records.lose(d, d.recordset("taken", "c", claim_records.TAKEN))


def reap(d: Dialect) -> str:
    """Lapsed lease → queued. The lapse is checked again under the lock: a heartbeat may have come first."""
    return _take_away(d, f"r.status = 'running' AND r.lease_expires_at <= {d.now}")


def reap_seen(d: Dialect) -> str:
    """As ``reap``, for databases where the holder may merely have waited for the write lock: what ``seen`` says."""
    seen = d.recordset("seen", "s", CLAIM)
    return _take_away(
        d,
        f"r.status = 'running' AND r.lease_expires_at <= {d.now} AND EXISTS "
        f"(SELECT 1 FROM {seen} WHERE s.id = r.id AND s.token = r.lease_token)",
    )


def find_lapsed(d: Dialect) -> str:
    return (
        "SELECT id, lease_token FROM django_durable_run "
        f"WHERE status = 'running' AND lease_expires_at <= {d.now} ORDER BY id LIMIT %(limit)s"
    )


def reap_worker(d: Dialect) -> str:
    """The leases of a process that has died, seen by its supervisor: no need to wait until they lapse."""
    return _take_away(d, "r.status = 'running' AND r.leased_by = %(worker)s")


def release_worker(d: Dialect) -> str:
    """The leases of a process that drained and is dead now: handed back unharmed."""
    # It waits for its rows, since nobody hands back what it skips, and so in the order in which a cancellation locks.
    return f"""
        WITH held AS MATERIALIZED (
            SELECT id FROM django_durable_run
            WHERE status = 'running' AND leased_by = %(worker)s ORDER BY id {d.wait_lock})
        UPDATE django_durable_run AS r
        SET status = {QUEUED_OR_PAUSED}, queued_at = {d.now},
            lease_token = NULL, leased_by = NULL, lease_expires_at = NULL
        FROM held WHERE r.id = held.id
        RETURNING {d.updated}.id, queue, priority"""
