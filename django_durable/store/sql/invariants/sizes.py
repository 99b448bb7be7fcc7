"""How large stored values are, and the values themselves in portions."""

from __future__ import annotations

from ....core.names import PATH_MAX
from ....core.payloads.failures import MESSAGE_MAX, NOTES_MAX, RELATED_MAX, TRACEBACK_MAX
from ...dialects import Dialect
from .windows import in_window, judged

JOURNALED = "('step', 'undo', 'block', 'loop', 'poll', 'child')"
"""Kinds whose value is bounded as one: an event's has its payload and more, a map's stands for all of its items."""
ROOM = 100
"""Bytes that a loop's count of turns may add to what was measured."""
OPAQUE = "('tried', 'unwanted')"
"""Kinds of payloads that are lines of text and no encoded values."""
WHICH = {"run_id": "uuid", "name": "text"}

WIDEST = 12
"""Bytes of a character in a stored text: two escapes, where it is none of the first 65,536."""
MORE = 2_000
"""Characters of an error's type, of what joins its parts, and of what is added to them, such as its step."""
ERROR = WIDEST * RELATED_MAX * (MORE + (1 + NOTES_MAX) * MESSAGE_MAX + TRACEBACK_MAX)
"""Bytes of the largest error that ``describe`` makes: far more than any that does not mean to be large."""
PLACE = WIDEST * PATH_MAX + 500
"""Bytes that an error may have for each entry of its run: the path, and that this was not undone."""


def payloads(d: Dialect) -> str:
    """I20: no input and no output is larger than MAX_PAYLOAD_BYTES, as it is set now, and no error than errors are."""
    size = d.size("p.data")
    return judged(
        "p.run_id AS run_id, p.kind AS kind",
        f"""
        WHEN p.kind IN ('input', 'output') AND {size} > %(max_bytes)s
                OR p.kind IN ('error', 'retry') AND {_is_no_error(size, "p.run_id")}
            THEN 'its ' || p.kind || ' takes ' || {size} || ' bytes'""",
        f"django_durable_payload p WHERE {in_window('p.run_id')}",
        order="run_id, kind",
    )


def entries(d: Dialect) -> str:
    """I20: and no result of a step, nor what it failed with. The error of a child has what that one's journal explains:
    it is looked at where it is the child's own."""
    size, error = d.size("j.value"), d.size("j.error")
    return judged(
        "j.run_id AS run_id, j.seq AS seq",
        f"""
        WHEN j.kind IN {JOURNALED} AND {size} > %(max_bytes)s + {ROOM}
            THEN 'the value of ' || j.path || ' takes ' || {size} || ' bytes'
        WHEN j.kind <> 'child' AND {_is_no_error(error, "j.run_id")}
            THEN 'the error of ' || j.path || ' takes ' || {error} || ' bytes'""",
        f"django_durable_journalentry j WHERE {in_window('j.run_id')}",
        order="run_id, seq",
    )


def _is_no_error(size: str, run: str) -> str:
    """Whether it is larger than what is told of one error, of the places that it came from, and of each compensation
    that failed. The run's journal is read only where the first of these would not do."""
    places = f"""SELECT coalesce(sum({PLACE} + CASE WHEN w.kind = 'undo' THEN {ERROR} ELSE 0 END), 0)
        FROM django_durable_journalentry w WHERE w.run_id = {run}"""
    return f"{size} > {ERROR} AND {size} > {ERROR} + ({places})"


def events(d: Dialect) -> str:
    """I20: and no payload of an event, nor a response to one."""
    size, answered = d.size("e.payload"), d.size("e.response")
    return judged(
        "e.run_id AS run_id, e.id AS number",
        f"""
        WHEN {size} > %(max_bytes)s THEN 'the payload of an event takes ' || {size} || ' bytes'
        WHEN {answered} > %(max_bytes)s THEN 'the response to an event takes ' || {answered} || ' bytes'""",
        f"django_durable_event e WHERE {in_window('e.run_id')}",
        order="run_id, number",
    )


def inputs(d: Dialect) -> str:
    """I20: and no input of a schedule."""
    size = d.size("s.input")
    return judged(
        "NULL AS run_id, s.id AS id",
        f"WHEN {size} > %(max_bytes)s THEN 'the input of schedule ' || s.id || ' takes ' || {size} || ' bytes'",
        f"django_durable_schedule s WHERE {in_window('s.id')}",
    )


# --- the values ------------------------------------------------------------------------------


def measure(d: Dialect) -> str:
    """Of encoded values of a window where each stands (table, run, name there) and how large it is: the first
    ``limit`` after that of ``run``, ``place`` and ``name``.

    Not of blocked runs: an unreadable value is a reason to be.
    """
    parts = (_measured(d, *value) for value in VALUES)
    return f"""
        SELECT place, run_id, name, size FROM ({" UNION ALL ".join(parts)}) AS v
        WHERE (run_id, place, name) > (%(run)s, %(place)s, %(name)s) ORDER BY run_id, place, name LIMIT %(limit)s"""


def _measured(d: Dialect, place: str, table: str, name: str, column: str, which: str) -> str:
    return f"""
        SELECT '{place}' AS place, v.run_id, {name} AS name, {d.size(column)} AS size
        FROM {table} v JOIN django_durable_run r ON r.id = v.run_id
        WHERE {in_window("v.run_id")} AND {in_window("r.id")} AND r.status <> 'blocked' AND {column} IS NOT NULL
            AND {which}"""


def measure_inputs(d: Dialect) -> str:
    """As ``measure``, of the schedules of a window. Not of those that say what is wrong with them."""
    return f"""
        SELECT '{INPUT}' AS place, NULL AS run_id, CAST(s.id AS text) AS name, {d.size("s.input")} AS size
        FROM django_durable_schedule s
        WHERE {in_window("s.id")} AND s.input <> '' AND s.problem = '' ORDER BY s.id"""


INPUT = "input of schedule"
"""The place of what belongs to no run."""
VALUES = (
    ("payload", "django_durable_payload", "v.kind", "v.data", f"v.kind NOT IN {OPAQUE}"),
    ("value", "django_durable_journalentry", "v.path", "v.value", "1 = 1"),
    ("error", "django_durable_journalentry", "v.path", "v.error", "1 = 1"),
    ("event", "django_durable_event", "CAST(v.id AS text)", "v.payload", "1 = 1"),
    ("response", "django_durable_event", "CAST(v.id AS text)", "v.response", "1 = 1"),
)
"""Place, table, name, column, and which of its rows."""


def load(d: Dialect, place: str) -> str:
    """The values at that place which ``which`` names: run, name, text."""
    if place == INPUT:
        return f"""
            SELECT NULL AS run_id, w.name, s.input FROM {d.recordset("which", "w", WHICH)}
            JOIN django_durable_schedule s ON s.id = CAST(w.name AS bigint)"""
    [(_, table, name, column, _)] = [value for value in VALUES if value[0] == place]
    named = "v.id = CAST(w.name AS bigint)" if name.startswith("CAST") else f"{name} = w.name"
    return f"""
        SELECT v.run_id, w.name, {column} FROM {d.recordset("which", "w", WHICH)}
        JOIN {table} v ON v.run_id = w.run_id AND {named}"""
