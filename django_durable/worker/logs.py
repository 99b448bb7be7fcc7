"""Log lines of a worker: one for each event, for people or as JSON."""

from __future__ import annotations

import json
import logging
from typing import Any

from ..client.redacting import is_redacting, why
from ..core.journal.journal import Write
from ..core.journal.outcomes import Blocked, Failed, Retried
from ..core.journal.states import EntryStatus, Kind, Status
from ..core.payloads.codec import decode
from ..core.payloads.failures import in_one_line
from ..store.claiming import Claim
from ..store.receipts import Receipt

logger = logging.getLogger("django_durable.runs")

LEVELS = {0: logging.CRITICAL, 1: logging.INFO}
_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


OF_STATUS: dict[str, int] = {
    Status.SUCCEEDED: logging.INFO,
    Status.CANCELLED: logging.INFO,
    Status.PAUSED: logging.INFO,
    Status.FAILED: logging.ERROR,
    Status.BLOCKED: logging.ERROR,
}
OF_STEP: dict[str, int] = {EntryStatus.RETRYING: logging.WARNING, EntryStatus.FAILED: logging.ERROR}


def wants_logging(write: Write, receipt: Receipt) -> bool:
    """Whether a commit holds an event that somebody may want to read of."""
    if receipt.status is not None:
        return logger.isEnabledFor(OF_STATUS.get(receipt.status, logging.WARNING))
    for entry in write.entries.values():  # noqa: SIM110  (of every step: a third of the cost of any() of a generator)
        if entry.status in OF_STEP:
            return True
    return False


def log_commit(claim: Claim, write: Write, receipt: Receipt) -> None:
    """A line for each step that failed or is tried again, and one for the run where it ended or is tried again."""
    about = {"run": str(claim.run_id), "workflow": claim.workflow}
    for entry in write.entries.values():
        if entry.kind == Kind.STEP and entry.status in OF_STEP:
            line = "%s step=%r run=%s workflow=%s attempt=%d error=%s"
            short = _short(decode(entry.error or "{}"))
            level = OF_STEP[entry.status]
            logger.log(level, line, entry.status, entry.path, *about.values(), entry.attempts, short, extra=about)
    match write.outcome:
        case Retried(error, attempt, delay):
            line = "retrying run=%s workflow=%s attempt=%d after=%.1fs error=%s"
            logger.warning(line, *about.values(), attempt, delay, _short(error), extra=about)
        case Failed(error) if receipt.status == Status.FAILED:
            line = "failed run=%s workflow=%s attempt=%d error=%s"
            logger.error(line, *about.values(), claim.attempt, _short(error), extra=about)
        case Blocked(reason, text) if receipt.status == Status.BLOCKED:
            logger.error("blocked run=%s workflow=%s reason=%s%s", *about.values(), reason, why(text), extra=about)
        case _ if receipt.status in (Status.SUCCEEDED, Status.CANCELLED, Status.PAUSED):
            line = "%s run=%s workflow=%s attempt=%d"
            logger.info(line, receipt.status, *about.values(), claim.attempt, extra=about)


def _short(error: dict[str, Any]) -> str:
    """Type and the beginning of the message, in one line: never the traceback, whose place is the journal. Of a project
    that redacts errors the type alone: nobody can be asked here what of the message may be seen."""
    kind = str(error.get("type", "Error"))
    return in_one_line(kind if is_redacting() else f"{kind}: {str(error.get('message', ''))[:300]}")


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
    """A line for people, with its traceback below and to the right of it; line breaks and control characters in names
    and messages cannot forge another."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        return in_one_line(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:
        # Not splitlines(): what else it takes for a line's end is no more than a character to be told of here.
        return "\n".join(f"    {in_one_line(line)}" for line in super().formatException(ei).split("\n"))


def log_to_stderr(verbosity: int, *, as_json: bool) -> None:
    """Let the package's events be seen, each once. A project's own logging stays, unless JSON was asked for."""
    logger = logging.getLogger("django_durable")
    if logger.hasHandlers() and not as_json:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if as_json else LineFormatter())
    logger.handlers = [handler]
    logger.propagate = not as_json
    logger.setLevel(LEVELS.get(verbosity, logging.DEBUG))
