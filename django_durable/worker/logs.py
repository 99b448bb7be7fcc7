"""Log lines of a worker: one for each event, for people or as JSON."""

from __future__ import annotations

import json
import logging
from typing import Any

LEVELS = {0: logging.CRITICAL, 1: logging.INFO}
_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """One object a line: ``ts``, ``level``, ``logger``, ``message``, and whatever was given as ``extra``."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "ts": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {key: value for key, value in vars(record).items() if key not in _USUAL}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class LineFormatter(logging.Formatter):
    """A line for people; line breaks and control characters in names cannot forge another."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        line = super().formatMessage(record)
        return "".join(char if char.isprintable() else repr(char)[1:-1] for char in line)


def log_to_stderr(verbosity: int, *, as_json: bool) -> None:
    """Let the package's events be seen. A project that has set up logging of its own keeps it, unless JSON was asked for."""
    logger = logging.getLogger("django_durable")
    if logger.hasHandlers() and not as_json:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if as_json else LineFormatter())
    logger.addHandler(handler)
    logger.propagate = not as_json
    logger.setLevel(LEVELS.get(verbosity, logging.DEBUG))
