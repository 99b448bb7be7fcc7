"""How an installation stands: its backlogs, what is worked on, what needs attention, in one statement.

No part reads more than ``most`` rows of what is ready or worked on, and ``few`` of anything else (of each queue, or of
each line), all of them out of a partial index: a backlog of millions is told as "so many and more". Each part says its
order, which is that of its index: without one PostgreSQL may read the whole table, for a LIMIT that it takes to be
near.
"""

from __future__ import annotations

from ..dialects import Dialect
from .lines import ASLEEP, QUEUED, lines, queues_of

READY = f"{QUEUED} AND NOT r.suspect"
LIMITED = "r.status = 'queued' AND r.limit_key IS NOT NULL"
SUSPECT = "r.status = 'queued' AND r.suspect"
ASLEEP_AS = "(SELECT 'scheduled' AS status UNION ALL SELECT 'waiting') AS s"
ASLEEP_AS_OR_HELD = "(SELECT 'scheduled' AS status UNION ALL SELECT 'waiting' UNION ALL SELECT '') AS s"
AWAITED = ("event:", "child:", "join:", "map:", "race:")


def standing(d: Dialect) -> str:
    """Rows of what, of which queue (of overdue which line, of blocked why, of failed which workflow), more about it,
    how many, since when.

    ``queues`` is of how many queues at most each backlog is told. Of overdue and failed there are also rows of how many
    others were read to find them: where these and those are more than are counted, there may be more.
    """
    parts = (
        _now(d),
        _ready(),
        _limited(),
        _suspect(),
        _asleep(),
        _overdue(d),
        _awaiting(d),
        _held(),
        _blocked(),
        _failed(d),
    )
    return f"""
        WITH RECURSIVE {queues_of("ready_queues", QUEUED)}, {lines("ready_lines", "ready_queues AS q", QUEUED)},
        {queues_of("asleep_queues", ASLEEP)}, {lines("asleep_lines", "asleep_queues AS q", ASLEEP)}
        {" UNION ALL ".join(parts)}"""


def _some(columns: str, where: str, order: str, most: str = "few") -> str:
    """The first such runs."""
    return f"(SELECT {columns} FROM django_durable_run r WHERE {where} ORDER BY {order} LIMIT %({most})s) AS r"


def _queues(name: str) -> str:
    return f"(SELECT q.name FROM {name} q WHERE q.name IS NOT NULL LIMIT %(queues)s) AS q"


def _now(d: Dialect) -> str:
    """First, because it gives the columns their types."""
    return f"SELECT 'now' AS what, '' AS name, '' AS more, 0 AS number, {d.now} AS since"


def _ready() -> str:
    # The oldest of a queue may stand in any of its lines, and each line has it first.
    oldest = f"""
        SELECT min(h.since) FROM (
            SELECT (
                SELECT min(r.queued_at) FROM django_durable_run r
                WHERE {READY} AND r.queue = l.queue AND r.priority = l.priority) AS since
            FROM ready_lines l WHERE l.queue = q.name AND l.priority IS NOT NULL) AS h"""
    some = _some("r.id", f"{READY} AND r.queue = q.name", "r.priority DESC, r.queued_at", "most")
    return f"SELECT 'ready', q.name, '', (SELECT count(*) FROM {some}), ({oldest}) FROM {_queues('ready_queues')}"


def _limited() -> str:
    """They stand in their index by limit: of all queues together no more than ``most``."""
    order = "r.limit_key, r.priority DESC, r.queued_at"
    some = _some("r.queue, r.queued_at", f"{LIMITED} AND NOT r.suspect", order, "most")
    return f"SELECT 'limited', r.queue, '', count(*), min(r.queued_at) FROM {some} GROUP BY r.queue"


def _suspect() -> str:
    """They stand in their index by age: of all queues together the oldest."""
    some = _some("r.queue, r.queued_at", SUSPECT, "r.queued_at")
    return f"SELECT 'suspect', r.queue, '', count(*), min(r.queued_at) FROM {some} GROUP BY r.queue"


def _asleep() -> str:
    some = _some("r.status", f"{ASLEEP} AND r.queue = q.name", "r.priority DESC, r.wake_at")
    return f"""
        SELECT 'asleep', q.name, s.status, (SELECT count(*) FROM {some} WHERE r.status = s.status), NULL
        FROM {_queues("asleep_queues")} CROSS JOIN {ASLEEP_AS}"""


def _overdue(d: Dialect) -> str:
    """Due for more than ``late`` seconds, and nobody has promoted them, although nobody holds them; by line.

    No index has the workflow, so those of held ones are read too, and told in a row without a status.
    """
    where = f"{ASLEEP} AND r.queue = l.queue AND r.priority = l.priority AND r.wake_at < {d.later('-(%(late)s)')}"
    status = f"CASE WHEN r.workflow {d.among('held_workflows')} THEN '' ELSE r.status END AS status"
    return f"""
        SELECT 'overdue', CAST(l.priority AS text) || ' ' || l.queue, s.status,
            (SELECT count(*) FROM {_some(status, where, "r.wake_at")} WHERE r.status = s.status), NULL
        FROM asleep_lines l CROSS JOIN {ASLEEP_AS_OR_HELD}
        WHERE l.priority IS NOT NULL AND NOT l.queue {d.among("held_queues")}"""


def is_awaited(d: Dialect) -> str:
    """In the words of the index durable_run_awaiting."""
    return " OR ".join(d.begins_with("r.waiting_on", prefix) for prefix in AWAITED)


def _awaiting(d: Dialect) -> str:
    """What somebody else has to wake. What is to wake by itself besides, after a time, is among those asleep too."""
    some = _some("r.queue, r.wake_at", f"r.status = 'waiting' AND ({is_awaited(d)})", "r.id")
    more = "CASE WHEN r.wake_at IS NULL THEN '' ELSE 'asleep' END"
    return f"SELECT 'awaiting', r.queue, {more}, count(*), NULL FROM {some} GROUP BY r.queue, {more}"


def _held() -> str:
    """What is worked on, by queue and worker."""
    some = _some("r.queue, CAST(r.leased_by AS text) AS worker", "r.status = 'running'", "r.leased_by", "most")
    return f"SELECT 'held', r.queue, r.worker, count(*), NULL FROM {some} GROUP BY r.queue, r.worker"


def _blocked() -> str:
    some = _some("r.block_reason", "r.status = 'blocked'", "r.id DESC")
    return f"SELECT 'blocked', r.block_reason, '', count(*), NULL FROM {some} GROUP BY r.block_reason"


def _failed(d: Dialect) -> str:
    """Of the newest that failed those that did after ``since``, and the others: when they ended is in no index. A child
    whose parent knows it, or has another in its place, needs nobody: it is the parent that can be resumed."""
    # As ``IS_KNOWN_TO_PARENT`` says it, and for the same reason by no EXISTS.
    entry = """
        SELECT j.status FROM django_durable_journalentry j
        WHERE j.run_id = r.parent_id AND j.path = r.parent_path AND j.kind = 'child'"""
    known = f"r.parent_path = '' OR coalesce(({entry}), '') = 'failed'"
    since = d.typed("since", "timestamptz")
    counts = f"r.finished_at >= {since} AND (r.parent_id IS NULL OR NOT ({known}))"
    ended = f"CASE WHEN {counts} THEN '' ELSE 'before' END AS ended"
    some = _some(f"r.workflow, {ended}", "r.status = 'failed'", "r.id DESC")
    return f"SELECT 'failed', r.workflow, r.ended, count(*), NULL FROM {some} GROUP BY r.workflow, r.ended"
