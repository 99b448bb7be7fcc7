"""The servers of a run, and what every process of a system finds in its environment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
from psycopg.sql import SQL, Composable, Identifier, Literal

from tests.servers import Folder, PostgresServer, RedisServer

from .systems import FOLDER

POSTGRES_DEFAULTS = {"max_wal_size": "1GB", "checkpoint_timeout": "5min"}
"""Where ``tests.servers`` has others, for tests that crash it: checkpoints come as seldom as a user has them."""
RELOAD = SQL("SELECT pg_reload_conf()")
REDIS_SNAPSHOTS = "3600 1 300 100 60 10000"
"""``save`` as Redis has it by default; ``tests.servers`` turns it off. It is what Celery and dramatiq have on disk."""


@dataclass(frozen=True)
class Stage:
    """PostgreSQL and Redis with the durability that both have by default: nobody else's, on private sockets."""

    folder: Path
    postgres: PostgresServer
    redis: RedisServer

    def url(self, database: str) -> str:
        return urlsplit(self.postgres.url)._replace(path=f"/{database}").geturl()

    def connect(self, database: str = "postgres") -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(self.url(database), autocommit=True)

    def new_database(self, name: str, template: str = "template1") -> None:
        """As ``template`` is. What a participant left there before is gone."""
        with self.connect() as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'.encode())
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"'.encode())

    def has_database(self, name: str) -> bool:
        with self.connect() as connection:
            found = connection.execute("SELECT FROM pg_database WHERE datname = %s", [name])
            return found.fetchone() is not None

    @contextmanager
    def altered(self, settings: dict[str, str]) -> Iterator[None]:
        """Settings that PostgreSQL takes up while it runs: each session has them from its next statement on."""
        try:
            for name, value in settings.items():
                self._tell(SQL("ALTER SYSTEM SET {} = {}").format(Identifier(name), Literal(value)))
            self._tell(RELOAD)
            yield
        finally:
            for name in settings:
                self._tell(SQL("ALTER SYSTEM RESET {}").format(Identifier(name)))
            self._tell(RELOAD)

    def _tell(self, statement: Composable) -> None:
        with self.connect() as connection:
            connection.execute(statement)

    def versions(self) -> dict[str, str]:
        """Of the servers, by their own word."""
        with self.connect() as connection:
            row = connection.execute("SHOW server_version").fetchone()
        assert row is not None
        with self.redis.client() as client:
            return {"postgres": str(row[0]), "redis": str(client.info("server")["redis_version"])}

    def environment(self, database: str, variant: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("DURABLE_", "DJANGO_"))}
        scratch = self.folder / database
        scratch.mkdir(exist_ok=True)
        return {
            **kept,
            "PYTHONPATH": str(FOLDER),
            "PYTHONFAULTHANDLER": "1",
            "BENCH_POSTGRES": self.url(database),
            "BENCH_REDIS": self.redis.url,
            "BENCH_FOLDER": str(scratch),
            "BENCH_VARIANT": variant,
        }


@contextmanager
def stage(options: dict[str, str] | None = None) -> Iterator[Stage]:
    """``options``: settings of PostgreSQL besides its defaults and durability."""
    with ExitStack() as stack:
        folder = stack.enter_context(Folder())
        settings = POSTGRES_DEFAULTS | (options or {})
        postgres = stack.enter_context(PostgresServer(folder, fsync=True, options=settings))
        redis = stack.enter_context(RedisServer(folder))
        with redis.client() as client:
            client.config_set("save", REDIS_SNAPSHOTS)
        yield Stage(folder, postgres, redis)
