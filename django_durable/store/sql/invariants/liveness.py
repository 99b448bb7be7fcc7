"""What should have moved and did not, if somebody could have moved it: whoever asks looks into that, and looks twice.

With each comes something by which it is known again as what has not moved since, and for how many seconds it has not.
"""

from __future__ import annotations

from ...dialects import Dialect
from ..endings import TERMINAL
from ..lines import ASLEEP, QUEUED, claimable, lines

MINE = "django_durable\\_"
"""By which a statement of ours is known, in LIKE. Doubled percent signs around it: it passes through formatting."""


def workers(d: Dialect) -> str:
    """The processes that were heard of in the last ``silence`` seconds: id, what they are, how many slots they have and
    have taken, and for how long they have been there."""
    taken = "SELECT count(*) FROM django_durable_run r WHERE r.status = 'running' AND r.leased_by = w.id"
    return f"""
        SELECT w.host, w.pid, w.queues, w.workflows, w.concurrency, ({taken}), {d.seconds_since("w.started_at")},
            w.is_isolated
        FROM django_durable_worker w
        WHERE w.stopped_at IS NULL AND w.heartbeat_at > {d.later("-(%(silence)s)")} ORDER BY w.id"""


def known(d: Dialect) -> str:
    """The workflows of each of these processes."""
    return f"""
        SELECT w.workflows FROM django_durable_worker w
        WHERE w.stopped_at IS NULL AND w.heartbeat_at > {d.later("-(%(silence)s)")}"""


def ready(d: Dialect) -> str:
    """L1: the first queued runs of these queues that a worker of these workflows may claim, without a limit."""
    where = f"{QUEUED} AND r.queue = q.name AND {claimable(d)}"
    first = d.first_runs(where, "r.priority DESC, r.queued_at", locks=False)
    return f"SELECT r.id, r.queued_at, {d.seconds_since('r.queued_at')} FROM {d.names('queues', 'q')} {first}"


def limited(d: Dialect) -> str:
    """L1: likewise those with a limit, with their workflow, whether they have begun, and how many of their key are
    leased."""
    leased = "SELECT count(*) FROM django_durable_run x WHERE x.status = 'running' AND x.limit_key = r.limit_key"
    return f"""
        SELECT r.id, r.queued_at, {d.seconds_since("r.queued_at")}, r.workflow, r.started_at IS NOT NULL, ({leased})
        FROM django_durable_run r
        WHERE r.status = 'queued' AND r.limit_key IS NOT NULL AND r.queue {d.among("queues")} AND {claimable(d)}
        ORDER BY r.limit_key, r.priority DESC, r.queued_at LIMIT %(limit)s"""


def due(d: Dialect) -> str:
    """L2: likewise those whose time has come and that nobody has queued or claimed, with a limit or without."""
    where = f"{ASLEEP} AND r.wake_at <= {d.now} AND r.queue = l.queue AND r.priority = l.priority AND {claimable(d)}"
    first = d.first_runs(where, "r.wake_at", locks=False)
    return f"""
        WITH RECURSIVE {lines("asleep", d.names("queues", "q"), ASLEEP)}
        SELECT r.id, r.wake_at, {d.seconds_since("r.wake_at")} FROM asleep AS l {first}"""


def lapsed(d: Dialect) -> str:
    """L1: runs whose lease lapsed ``bound`` seconds ago and that nobody has taken up."""
    return f"""
        SELECT r.id, r.lease_expires_at, {d.seconds_since("r.lease_expires_at")} FROM django_durable_run r
        WHERE r.status = 'running' AND r.lease_expires_at < {d.later("-(%(bound)s)")}
        ORDER BY r.leased_by LIMIT %(limit)s"""


def late(d: Dialect) -> str:
    """L5: schedules that were due ``bound`` seconds ago, which some live worker should have fired: of a workflow that
    one knows, and an operator's or confirmed by running code. One that waits for its own run is not late."""
    live = f"""SELECT 1 FROM django_durable_fire f JOIN django_durable_run r ON r.id = f.run_id
        WHERE f.schedule_id = s.id AND f.is_open AND r.status NOT IN {TERMINAL} LIMIT 1"""
    return f"""
        SELECT s.id, s.next_fire_at, {d.seconds_since("s.next_fire_at")} FROM django_durable_schedule s
        WHERE s.enabled AND s.next_fire_at < {d.later("-(%(bound)s)")} AND s.problem = ''
            AND s.workflow {d.among("workflows")}
            AND (s.app_label = '' OR s.declared_at > {d.later("-(%(silence)s)")})
            AND NOT (s.overlap = 'queue' AND ({live}) IS NOT NULL)
        ORDER BY s.next_fire_at LIMIT %(limit)s"""


def sessions() -> str:
    """L6: sessions of PostgreSQL whose last statement is one of ours, and that have been idle in a transaction, or have
    waited for a lock, for more than ``bound`` seconds. Those of other roles are seen by who may see them."""
    return f"""
        SELECT a.pid, a.state_change, extract(epoch FROM clock_timestamp() - a.state_change)::double precision,
            CASE WHEN a.state = 'active' THEN 'waits for a lock' ELSE 'is idle in a transaction' END
        FROM pg_stat_activity a
        WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.query LIKE '%%{MINE}%%'
            AND (a.state LIKE 'idle in transaction%%' OR (a.state = 'active' AND a.wait_event_type = 'Lock'))
            AND a.state_change < clock_timestamp() - %(bound)s * interval '1 second'
        ORDER BY a.pid LIMIT %(limit)s"""
