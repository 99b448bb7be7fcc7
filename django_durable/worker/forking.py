"""A worker process that begins as a copy of its supervisor, which has imported the project already.

To execute the command again takes as long as the project takes to be imported: seconds of a core, on a machine that
has just lost a process and has its runs to take up again. Resque and Celery's prefork pool copy too, and always.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import signal
import socket
import stat
import sys
import traceback
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import NoReturn

from django.core.cache import caches
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from ..queues.current import let_go

THREADS, DESCRIPTORS = "/proc/self/task", "/proc/self/fd"
FIRST_OWN = 3
"""Of the descriptors: those before are the log, also where whoever collects it has a socket there."""
WITHOUT_STATE = ("/dev/null", "/dev/urandom", "/dev/random")
HELD_BACK = (signal.SIGINT, signal.SIGTERM)


class Forked:
    """What ``subprocess.Popen`` is for a process that was executed, as far as a supervisor asks. ``returncode`` as
    there: None while it runs, negative for the signal that ended it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Ask whether it has ended. Never waits: a signal handler may ask, also in the middle of another poll."""
        return self._ask(os.WNOHANG)

    def wait(self) -> int | None:
        """Until it has ended."""
        return self._ask(0)

    def kill(self) -> None:
        """SIGKILL, unless it is known to have ended."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def _ask(self, options: int) -> int | None:
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, options)
            except ChildProcessError:
                # Whoever has interrupted us, or whom we have interrupted, has been told. As ``Popen`` says then.
                self.returncode = 0
            else:
                self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode


def what_hinders(ours: Collection[int]) -> str | None:
    """Why a copy of this process would not do, None where it does; Django's connections and our queue's are closed
    then. ``ours`` are the descriptors that the copy closes.

    A thread is not copied, so that what it has locked stays locked; on a connection both would speak, in a file both
    would move. What macOS itself has started breaks in a copy: https://bugs.python.org/issue33725
    """
    if sys.platform != "linux":
        return f"this is {sys.platform}"
    try:
        if (threads := len(os.listdir(THREADS))) > 1:
            return f"this process has {threads} threads"
        for connection in connections.all(initialized_only=True):
            if found := _of_database(connection):
                return found
        connections.close_all()
        caches.close_all()
        let_go()
        listed = [int(name) for name in os.listdir(DESCRIPTORS)]
        open_ = [number for number in listed if number >= FIRST_OWN and number not in ours]
        return next((f"this process has {found} open" for number in open_ if (found := _of_descriptor(number))), None)
    except Exception as error:
        # Of a database or a cache, which may be anybody's.
        return f"{type(error).__name__}: {error}"


def _of_database(connection: BaseDatabaseWrapper) -> str | None:
    """Such as a test has, in which somebody calls the command."""
    if connection.vendor == "sqlite" and connection.is_in_memory_db():  # type: ignore[attr-defined]
        return "the database is in the memory of this process"
    if connection.in_atomic_block or (connection.connection is not None and not connection.get_autocommit()):
        return "this process has a transaction under way"
    return None


def _of_descriptor(number: int) -> str | None:
    """What it is; None for what many processes may write to at a time, and for what this one was started with."""
    try:
        target, found = os.readlink(f"{DESCRIPTORS}/{number}"), os.stat(number)
        if stat.S_ISSOCK(found.st_mode):
            return None if _takes_datagrams(number) else "a connection"
        if target in WITHOUT_STATE or os.get_inheritable(number):
            # Python lets others inherit nothing of what it opens.
            return None
        is_log = stat.S_ISREG(found.st_mode) and _is_only_written(number)
    except OSError as error:
        if error.errno in (errno.EBADF, errno.ENOENT):
            # The listing's own, closed with it.
            return None
        raise
    return None if is_log else target


def _takes_datagrams(number: int) -> bool:
    """Those to a syslog or a statsd do not mix."""
    was_blocking = os.get_blocking(number)
    with socket.socket(fileno=os.dup(number)) as twin:
        kind = twin.type
    # A default timeout of the project's has made both of them others.
    os.set_blocking(number, was_blocking)
    return kind == socket.SOCK_DGRAM


def _is_only_written(number: int) -> bool:
    return fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY


def fork(become: Callable[[], object]) -> Forked:
    """A copy of this process, in which ``become`` is called and never returned from. Raises OSError where there are no
    processes or no memory left.

    Ctrl-C and SIGTERM are held back in it until it unblocks them: what the supervisor makes of them is not for it.
    """
    # Else what waits in them would be written by both.
    for stream in (*_handlers(), sys.stdout, sys.stderr):
        # There may be none, or one that is closed, or anybody's.
        with suppress(Exception):
            stream.flush()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HELD_BACK)
    try:
        if pid := os.fork():
            return Forked(pid)
        _be(become)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _handlers() -> list[logging.Handler]:
    loggers = (logging.root, *logging.root.manager.loggerDict.values())
    return [handler for logger in loggers for handler in getattr(logger, "handlers", ())]


def _be(become: Callable[[], object]) -> NoReturn:
    """Nothing of this leaves the copy: above us is the supervisor's code, which would supervise."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (*HELD_BACK, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        become()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)
