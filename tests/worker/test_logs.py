"""What a worker writes to its log, and beside whose handlers."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from django_durable.core.journal.journal import Write
from django_durable.core.journal.outcomes import Blocked
from django_durable.core.journal.states import BlockReason, Status
from django_durable.store.receipts import Receipt
from django_durable.worker.logs import JsonFormatter, LineFormatter, log_commit, log_to_stderr

FORGED = "boom\n2026-01-01 INFO all is well\x1b[2K"


def record(message: str, *, with_error: bool = False, **extra: object) -> logging.LogRecord:
    made = logging.makeLogRecord({"name": "django_durable.runs", "levelname": "ERROR", "msg": message, **extra})
    if with_error:
        try:
            raise ValueError(FORGED)
        except ValueError:
            made.exc_info = sys.exc_info()
    return made


def test_a_name_cannot_forge_a_line() -> None:
    [line] = LineFormatter().format(record(FORGED)).splitlines()
    assert line.endswith(r"ERROR django_durable.runs boom\n2026-01-01 INFO all is well\x1b[2K")


def test_a_message_cannot_forge_a_line_in_a_traceback() -> None:
    first, *others = LineFormatter().format(record("told", with_error=True)).split("\n")
    assert first.endswith("ERROR django_durable.runs told")
    assert others[-2:] == ["    ValueError: boom", r"    2026-01-01 INFO all is well\x1b[2K"]
    assert all(line.startswith("    ") for line in others)


@pytest.mark.parametrize(
    ("redact", "told"), [(None, "reason=undecodable: got '4711'"), ("some.where", "reason=undecodable")]
)
def test_what_a_run_is_blocked_for_is_told_unless_values_are_redacted(
    settings: Any, caplog: pytest.LogCaptureFixture, redact: str | None, told: str
) -> None:
    settings.DURABLE = {**settings.DURABLE, "REDACT": redact}
    claim: Any = SimpleNamespace(run_id=uuid4(), workflow="shop.order", attempt=1)
    write = Write(outcome=Blocked(BlockReason.UNDECODABLE, "got '4711'"))
    log_commit(claim, write, Receipt(status=Status.BLOCKED))
    assert [record.getMessage() for record in caplog.records] == [
        f"blocked run={claim.run_id} workflow=shop.order {told}"
    ]


def test_an_object_takes_one_line_with_what_was_given_besides_and_the_traceback() -> None:
    [line] = JsonFormatter().format(record(FORGED, with_error=True, run="r1", odd=object)).splitlines()
    told = json.loads(line)
    assert "ValueError: boom" in told.pop("traceback")
    assert told.pop("ts")
    assert told == {
        "level": "ERROR",
        "logger": "django_durable.runs",
        "message": FORGED,
        "run": "r1",
        "odd": "<class 'object'>",
    }


# --- whose handlers --------------------------------------------------------------------------


@contextmanager
def project(*handlers: logging.Handler) -> Iterator[logging.Logger]:
    """The package's logger in a project with these handlers for it, and none at the root. Inside of a test: pytest
    puts handlers of its own there before each."""
    logger, root = logging.getLogger("django_durable"), logging.getLogger()
    before = (logger.handlers, root.handlers, logger.propagate, logger.level)
    logger.handlers, root.handlers = list(handlers), []
    try:
        yield logger
    finally:
        logger.handlers, root.handlers, logger.propagate = before[:3]
        logger.setLevel(before[3])


@pytest.mark.parametrize(("verbosity", "shown"), [(0, "CRITICAL"), (1, "INFO"), (2, "DEBUG"), (3, "DEBUG")])
def test_events_are_seen_in_a_project_without_logging(verbosity: int, shown: str) -> None:
    with project() as logger:
        log_to_stderr(verbosity, as_json=False)
        [handler] = logger.handlers
        assert isinstance(handler.formatter, LineFormatter)
        assert logging.getLevelName(logger.level) == shown


def test_a_project_with_logging_of_its_own_keeps_it() -> None:
    with project(own := logging.NullHandler()) as logger:
        log_to_stderr(1, as_json=False)
        assert logger.handlers == [own]


def test_json_that_was_asked_for_stands_in_place_of_a_projects_own_lines() -> None:
    with project(logging.NullHandler()) as logger:
        log_to_stderr(1, as_json=True)
        [handler] = logger.handlers
        assert isinstance(handler.formatter, JsonFormatter)
        assert not logger.propagate, "each event would be told twice"
