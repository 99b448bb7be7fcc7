"""What a run tells people while it works: progress, annotations and log lines.

All of it is stored with the run's next durable write. A replay says it again, and what it says before an entry that it
finds was stored with that one: so only what came after the last commit is written once more. Of log lines each is to
stand once, and a write that ended an attempt may have stored those too, without an entry behind them. So each line has
the number of its place in the code, by which the store knows again what a replay says.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, MutableMapping
from math import isfinite
from os import urandom
from typing import Any

from ..journal.journal import Entry
from ..journal.log import LEVEL_MAX, MESSAGE_MAX, FailedAttempt, Logged, attempt_line, fit_message, place_number
from ..names import check_name
from ..payloads.codec import encode
from ..payloads.failures import describe, short
from .executing import executing_flow
from .flow import Flow
from .stepping import running_step

logger = logging.getLogger("django_durable.workflow")

ERROR_MAX = 500
"""Characters of the message of an attempt that is made again."""

NOTE_MAX_BYTES = 4096
"""Of one annotation's value as text."""


def progress(flow: Flow, done: float, total: float | None, message: str) -> None:
    """Note how far the run has come. Raises TypeError for what is no number, ValueError for one without a place."""
    flow.require_open("progress")
    for what, number in (("done", done), ("total", total)):
        if number is not None or what == "done":
            _check_number(what, number)
    text = encode({"done": done, "total": total, "message": str(message)[:500]})
    if not flow.is_looking:
        flow.pending.progress = text


def _check_number(what: str, number: object) -> None:
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise TypeError(f"{what} of progress() must be a number, not {number!r}.")
    if not isfinite(number):
        raise ValueError(f"{what} of progress() must be finite, not {number!r}.")


def annotate(flow: Flow, facts: Mapping[str, Any]) -> None:
    """Note these, name by name; all of them or none. Raises InvalidName, PayloadError."""
    flow.require_open("annotate")
    names = [check_name("annotation", name) for name in facts]
    texts = {name: encode(facts[name], limit=NOTE_MAX_BYTES, root=f"annotation {name!r}") for name in names}
    if not flow.is_looking:
        flow.pending.annotate(texts)


def note_attempt(flow: Flow, entry: Entry, error: BaseException, polls: int = 0) -> None:
    """Keep in the run's log that the last attempt of this step failed and is made again: the entry will only know of
    the one that comes last. The attempts of a poll are counted from 1 after each of the ``polls`` that came to an end.
    """
    if flow.run.keeps_log:
        told = FailedAttempt.of(entry.attempts, entry.wake_after, describe(error, limit_message=ERROR_MAX))
        place = f"{entry.path}\n{entry.attempts}" + (f"\n{polls}" if polls else "")
        line = attempt_line(told, entry.attempts, flow.journal.now(), entry.path, place, entry.seconds)
        flow.pending.open_log().add(line)


class RunLog(logging.LoggerAdapter[logging.Logger]):
    """The run's logger: each record carries ``workflow`` and ``run``; what was logged once is not in a replay.

    What the logger is enabled for is kept with the run as well.
    """

    def __init__(self, flow: Flow) -> None:
        super().__init__(logger, {"workflow": flow.run.workflow, "run": str(flow.run.run_id)})
        self._flow = flow

    @property
    def _speaker(self) -> Flow:
        """The line of this attempt whose code this is: a branch may speak through the log of the code around it, and a
        compensation through that of a line which only looks."""
        line = executing_flow()
        return line if line is not None and line.journal is self._flow.journal else self._flow

    def isEnabledFor(self, level: int) -> bool:
        # No replay runs a step's function.
        is_new = running_step() is not None or not self._speaker.says_again
        return is_new and super().isEnabledFor(level)

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        # Asked first: of what is filtered nothing is made.
        if not self.logger.isEnabledFor(level):
            return
        if self._flow.run.keeps_log:
            self._keep(level, msg, args, kwargs.get("exc_info"))
        # A record says where in the workflow's code it was made, and not here.
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1
        super().log(level, msg, *args, **kwargs)

    def _keep(self, level: int, msg: object, args: tuple[object, ...], exc_info: object) -> None:
        flow, is_in_step = self._speaker, running_step() is not None
        if flow.is_looking or flow.is_closed or flow.outcome is not None:
            # An attempt that is over unwinds the code: it says there what it says again each time.
            return
        line = Logged(
            level=max(0, min(level, LEVEL_MAX)),
            message=fit_message(_message(msg, args) + _raised(exc_info)),
            at=flow.journal.now(),
            scope=flow.scope.removesuffix("/"),
            # No replay says again what a step's function has said.
            place=int.from_bytes(urandom(8), signed=True) if is_in_step else _place(flow),
            # An attempt that has journaled nothing may have stored lines as well, with its outcome.
            is_again=not is_in_step and (flow.says_again or flow.run.has_begun),
        )
        flow.pending.open_log().add(line)

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(kwargs.get("extra") or {}), **(self.extra or {})}
        return msg, kwargs


def _place(flow: Flow) -> int:
    claimed = flow.claimed
    claimed.said += 1
    return place_number(f"{flow.scope}\n{claimed.last}\n{claimed.said}")


def _message(msg: object, args: tuple[object, ...]) -> str:
    """As logging writes it. Raises nothing: a line of the log fails no run."""
    try:
        if not args:
            return str(msg)
        # One dict stands for what is named in the message.
        named = args[0] if len(args) == 1 and isinstance(args[0], Mapping) and args[0] else args
        return str(msg) % named
    except Exception as error:
        return f"{msg if type(msg) is str else type(msg).__name__} <not formatted: {short(error)}>"


def _raised(exc_info: object) -> str:
    """Type and message of what was raised, in whichever form logging takes it."""
    if not exc_info:
        return ""
    given = exc_info if isinstance(exc_info, BaseException | tuple) else sys.exc_info()
    error = given[1] if isinstance(given, tuple) and len(given) == 3 else given
    return f": {short(error, MESSAGE_MAX)}" if isinstance(error, BaseException) else ""
