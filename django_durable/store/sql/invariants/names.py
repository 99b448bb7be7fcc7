"""How long names are. PostgreSQL refuses what is longer than its column, SQLite stores it."""

from __future__ import annotations

from ....core.limits import LIMIT_KEY_MAX
from ....core.names import NAME_MAX, PATH_MAX, QUEUE_MAX
from ....core.schedules.cron import EXPRESSION_MAX
from ...dialects import Dialect
from .windows import in_window

WAIT_MAX = PATH_MAX + 20
"""Characters: a path, and the kind of what is waited for."""


def of_runs(d: Dialect) -> str:
    """I20: no name, tag, key or path of a run is longer than its column."""
    found = " UNION ALL ".join(_of_run(*name) for name in RUNS)
    return f"{found} ORDER BY 1, 2 LIMIT %(limit)s"


def _of_run(what: str, table: str, run: str, column: str, most: int) -> str:
    return f"""
        SELECT n.{run}, '{what} of ' || length(n.{column}) || ' characters' FROM {table} n
        WHERE {in_window(f"n.{run}")} AND length(n.{column}) > {most}"""


RUNS = (
    ("a workflow", "django_durable_run", "id", "workflow", NAME_MAX),
    ("a queue", "django_durable_run", "id", "queue", QUEUE_MAX),
    ("a path in its parent", "django_durable_run", "id", "parent_path", PATH_MAX),
    ("a limit", "django_durable_run", "id", "limit_key", LIMIT_KEY_MAX),
    ("a wait", "django_durable_run", "id", "waiting_on", WAIT_MAX),
    ("a path", "django_durable_journalentry", "run_id", "path", PATH_MAX),
    ("a tag", "django_durable_tag", "run_id", "name", NAME_MAX),
    ("an event", "django_durable_event", "run_id", "name", NAME_MAX),
    ("the key of an event", "django_durable_event", "run_id", "idempotency_key", NAME_MAX),
    ("the path that took an event", "django_durable_event", "run_id", "consumed_by", PATH_MAX),
    ("an idempotency key", "django_durable_idempotencykey", "run_id", "key", NAME_MAX),
    ("the scope of a line of the log", "django_durable_logline", "run_id", "scope", PATH_MAX),
)
"""What each is called where it is told, its table, that one's column of the run, its own, and its characters."""


def of_schedules(d: Dialect) -> str:
    """I20: and none of a schedule."""
    columns = (("workflow", NAME_MAX), ("name", NAME_MAX), ("expression", EXPRESSION_MAX))
    found = " UNION ALL ".join(_numbered("schedule", column, most) for column, most in columns)
    return f"{found} ORDER BY 2 LIMIT %(limit)s"


def of_holds(d: Dialect) -> str:
    """I20: and none of what is held."""
    return f"{_numbered('hold', 'name', NAME_MAX)} ORDER BY 2 LIMIT %(limit)s"


def _numbered(noun: str, column: str, most: int) -> str:
    return f"""
        SELECT NULL, 'the {column} of {noun} ' || n.id || ' has ' || length(n.{column}) || ' characters'
        FROM django_durable_{noun} n WHERE {in_window("n.id")} AND length(n.{column}) > {most}"""
