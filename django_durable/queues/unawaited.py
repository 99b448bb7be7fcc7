"""Commands to Redis whose replies are read when the connection is used again, and not waited for."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any

from ..core import clock

READ_SECONDS = 0.02
"""Replies are read no more often: who sends one command after the other saves two looks at the socket for each. What is
sent into a connection that the server has closed since the last look is lost, or fails and is noticed."""
Command = tuple[str, ...]
Reply = tuple[Command, Any]


class _Line:
    """A connection, and the commands whose replies are still to be read from it."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.is_new = True
        self.unread: list[Command] = []
        self._next_look = 0.0

    @property
    def is_to_be_looked_at(self) -> bool:
        return clock.monotonic() >= self._next_look

    def read(self) -> list[Reply]:
        self._next_look = clock.monotonic() + READ_SECONDS
        replies = [(command, self.connection.read_response()) for command in self.unread]
        self.unread = []
        return replies


class Unawaited:
    """Sends what is a hint. Whoever sends waits for a reply only on a connection that is new, so that a process that
    sends once learns of a Redis that refuses; else the kernel takes the command, and nobody waits for Redis to be given
    a core.

    What a server took that died before it answered is lost without anybody having been told.
    """

    def __init__(self, pool: Any, gone: type[Exception]) -> None:
        """``pool``: redis-py's, in which connections are made; they stay in its hands as ones in use. ``gone``: what
        they raise where the server has hung up."""
        self._pool = pool
        self._gone = gone
        self._mutex = threading.Lock()
        self._idle: list[_Line] = []
        self._pid = os.getpid()

    def send(self, commands: Sequence[Command], *, is_awaited: bool = False) -> list[Reply]:
        """Replies that came in the meantime to earlier commands, with these; with ``is_awaited`` also those to
        ``commands``. Raises redis-py's errors: a refusal may be that of an earlier command."""
        line = self._take()
        try:
            replies = self._read_up(line)
            line.connection.send_packed_command(line.connection.pack_commands(commands))
            line.unread.extend(commands)
            if is_awaited or line.is_new:
                replies += line.read()
                line.is_new = False
        except BaseException:
            # Nobody knows which replies would still come from it.
            self._drop(line)
            raise
        with self._mutex:
            self._idle.append(line)
        return replies

    def close(self) -> None:
        """Disconnect what nobody sends on just now."""
        with self._mutex:
            lines, self._idle = self._idle, []
        for line in lines:
            self._drop(line)

    def _take(self) -> _Line:
        with self._mutex:
            if self._pid != os.getpid():
                # They are the parent's: two processes on one socket would read each other's replies.
                self._pid, self._idle = os.getpid(), []
            if self._idle:
                return self._idle.pop()
        return _Line(self._pool.get_connection())

    def _read_up(self, line: _Line) -> list[Reply]:
        """The replies to what was sent before; to a server that went away meanwhile the line is made anew."""
        if line.is_new or not line.is_to_be_looked_at:
            return []
        try:
            replies = line.read()
            if not line.connection.can_read():
                return replies
        except self._gone:
            pass
        # Bytes that nobody asked for, or the end of the stream.
        line.connection.disconnect()
        line.connection.connect()
        line.is_new, line.unread = True, []
        return []

    def _drop(self, line: _Line) -> None:
        line.connection.disconnect()
        self._pool.release(line.connection)
