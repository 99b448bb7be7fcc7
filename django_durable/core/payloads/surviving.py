"""Failures of code that is not ours, met by a thread that has to go on: a line of the log, and never its end.

A project's code runs in the engine's own threads too: keys of limits and inputs of schedules, receivers of signals,
those of Django's ``connection_created``, filters of logging. SystemExit, or whatever else is no Exception, ends a
thread without a word, and the process lives on without it.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from functools import partial

from .failures import in_one_line, short


def survive(error: BaseException, logger: logging.Logger, message: str, *args: object) -> None:
    """Log ``error`` with its traceback, under ``message`` and its ``args``. Raises nothing but Ctrl-C."""
    if is_ctrl_c(error):
        raise error
    in_full = partial(logger.error, message, *args, exc_info=error)
    in_brief = partial(logger.error, f"{message}: %s", *args, in_one_line(short(error)))
    # There are errors that nobody can format; and what has failed may be a filter of the log itself.
    _ = _is_told(in_full) or _is_told(in_brief)


def warn(logger: logging.Logger, message: str, *args: object) -> None:
    """Log a warning. Raises nothing but Ctrl-C: a filter of the log may ask the database that is away."""
    _is_told(partial(logger.warning, message, *args))


def _is_told(tell: Callable[[], None]) -> bool:
    try:
        tell()
    except BaseException as error:
        if is_ctrl_c(error):
            raise
        return False
    return True


def is_ctrl_c(error: BaseException) -> bool:
    """Whether somebody at a terminal wants the end. Python raises that in the main thread alone, and only while nobody
    else handles the signal, as a worker does: any other KeyboardInterrupt is the doing of whatever code raised it."""
    return (
        isinstance(error, KeyboardInterrupt)
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
