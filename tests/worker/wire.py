"""What this process says to its database and to Redis, over whichever connection, and whom it starts for it.

Below Django: what the ORM, a transaction's end or a health check sends is heard as well, in every thread.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from django.db import connection, connections
from django.db.backends.signals import connection_created


class Wire:
    """``sent`` holds each round trip to the database, with the connection that it went over; ``redis`` those to Redis,
    each as its commands."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, str]] = []
        self.redis: list[str] = []
        self.connections = 0
        self.threads = 0

    def note(self, link: object, statement: Any) -> None:
        text = statement.decode() if isinstance(statement, bytes) else str(statement)
        # A part of connecting, where the server's zone is another one than the project's.
        if not text.startswith("SELECT set_config('TimeZone'"):
            self.sent.append((id(link), text.strip()))

    @property
    def round_trips(self) -> int:
        return len(self.sent)

    @property
    def statements(self) -> int:
        """Round trips, but for those that only begin or end a transaction."""
        return sum(text not in ("BEGIN", "BEGIN IMMEDIATE", "COMMIT") for _, text in self.sent)

    @property
    def commits(self) -> int:
        """Transactions, but for looks: each statement outside of one that may write is one of its own."""
        count, opened = 0, set()
        for link, text in self.sent:
            if text.startswith("BEGIN"):
                opened.add(link)
            elif text == "COMMIT":
                opened.discard(link)
            count += link not in opened and not text.startswith("SELECT")
        return count

    @property
    def prepares(self) -> int:
        """How many of the round trips only prepare a statement."""
        return sum(text.startswith("PREPARE ") for _, text in self.sent)

    def most_common(self) -> str:
        """For the report of a test that fails."""
        counted = Counter(" ".join(text.split())[:90] for _, text in self.sent)
        return "\n".join(f"{count:4}  {text}" for text, count in counted.most_common())


class Tap:
    """Hears all of this process, and keeps it in ``wire``."""

    def __init__(self) -> None:
        self.wire = Wire()

    @contextmanager
    def into(self, wire: Wire) -> Iterator[Wire]:
        self.wire, before = wire, self.wire
        yield wire
        self.wire = before

    def heard(self, link: object, statement: Any) -> None:
        self.wire.note(link, statement)

    def connected(self, sender: object, connection: Any, **_: object) -> None:
        self.wire.connections += 1
        self.listen_to(connection)

    def listen_to(self, connection: Any) -> None:
        if connection.vendor == "sqlite" and connection.connection is not None:
            connection.connection.set_trace_callback(partial(self.heard, connection))


@contextmanager
def tapped(patch: pytest.MonkeyPatch) -> Iterator[Tap]:
    """Connections that this thread has already are heard as well."""
    tap = Tap()
    connection_created.connect(tap.connected)
    for one in connections.all(initialized_only=True):
        tap.listen_to(one)
    if connection.vendor == "postgresql":
        _tap_psycopg(patch, tap)
        _tap_typed(patch, tap)
    _tap_redis(patch, tap)
    _tap_threads(patch, tap)
    try:
        yield tap
    finally:
        connection_created.disconnect(tap.connected)
        connections.close_all()


def _tap_psycopg(patch: pytest.MonkeyPatch, tap: Tap) -> None:
    from psycopg import BaseConnection, Cursor

    def after(call: Any) -> Any:
        # After the BEGIN that psycopg sends by itself in the midst of it.
        def tapped_call(self: Any, query: Any, *args: Any, **options: Any) -> Any:
            try:
                return call(self, query, *args, **options)
            finally:
                tap.heard(self.connection, query)

        return tapped_call

    prepare, command = Cursor._send_prepare, BaseConnection._exec_command

    def tapped_prepare(self: Any, name: bytes, query: Any) -> Any:
        tap.heard(self.connection, f"PREPARE {name.decode()}")
        return prepare(self, name, query)

    def tapped_command(self: Any, text: Any, *args: Any) -> Any:
        tap.heard(self, text)
        return command(self, text, *args)

    patch.setattr(Cursor, "execute", after(Cursor.execute))
    patch.setattr(Cursor, "executemany", after(Cursor.executemany))
    patch.setattr(Cursor, "_send_prepare", tapped_prepare)
    patch.setattr(BaseConnection, "_exec_command", tapped_command)


def _tap_typed(patch: pytest.MonkeyPatch, tap: Tap) -> None:
    """What goes to psycopg without a cursor."""
    from django_durable.store.typed_statements import TypedStatements

    send, prepare = TypedStatements._send, TypedStatements._prepare

    def tapped_send(self: Any, driver: Any, sql: str, *args: Any) -> None:
        tap.heard(driver, sql)
        send(self, driver, sql, *args)

    def tapped_prepare(self: Any, driver: Any, text: bytes) -> bytes:
        name = prepare(self, driver, text)
        tap.heard(driver, f"PREPARE {name.decode()}")
        return name

    patch.setattr(TypedStatements, "_send", tapped_send)
    patch.setattr(TypedStatements, "_prepare", tapped_prepare)


def _tap_redis(patch: pytest.MonkeyPatch, tap: Tap) -> None:
    from redis import Redis

    from django_durable.queues.redis import RedisQueue
    from django_durable.queues.unawaited import Unawaited

    execute, wait, send = Redis.execute_command, RedisQueue._wait, Unawaited.send

    def tapped_execute(self: Any, *args: Any, **options: Any) -> Any:
        tap.wire.redis.append(str(args[0]))
        return execute(self, *args, **options)

    def tapped_wait(self: Any, pool: Any, seconds: float, commands: Any, replies: Any) -> None:
        tap.wire.redis.append(" ".join(command[0] for command in commands))
        wait(self, pool, seconds, commands, replies)

    def tapped_send(self: Any, commands: Any, **options: Any) -> Any:
        tap.wire.redis.append(" ".join(command[0] for command in commands))
        return send(self, commands, **options)

    patch.setattr(Redis, "execute_command", tapped_execute)
    patch.setattr(RedisQueue, "_wait", tapped_wait)
    patch.setattr(Unawaited, "send", tapped_send)


ENDS_THREAD = "asgiref.sync.ThreadSensitiveContext.__aexit__.<locals>.join"
"""Newer versions of asgiref end the thread of each run by one more."""


def _name_of(target: object) -> str:
    return f"{getattr(target, '__module__', '')}.{getattr(target, '__qualname__', '')}"


def _tap_threads(patch: pytest.MonkeyPatch, tap: Tap) -> None:
    start = threading.Thread.start

    def tapped_start(self: threading.Thread) -> None:
        tap.wire.threads += _name_of(getattr(self, "_target", None)) != ENDS_THREAD
        start(self)

    patch.setattr(threading.Thread, "start", tapped_start)
