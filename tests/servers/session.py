"""The servers that one backend of the test suite needs, and the environment by which other processes find them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.servers.folder import Folder
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer

BACKENDS = ("postgres-redis", "postgres-database", "sqlite")


@dataclass
class Servers:
    """`postgres` and `redis` are None where the backend has none, or where it is somebody else's (by its url)."""

    backend: str
    folder: Path
    postgres: PostgresServer | None = None
    redis: RedisServer | None = None
    environment: dict[str, str] = field(default_factory=dict)


@contextmanager
def servers_for(backend: str) -> Iterator[Servers]:
    """Start what is missing. A url that is set in the environment means: use that one, start none."""
    if backend not in BACKENDS:
        raise ValueError(f"DURABLE_TEST_BACKEND is {backend!r}; there are {', '.join(BACKENDS)}.")
    with ExitStack() as stack:
        folder = stack.enter_context(Folder())
        servers = Servers(backend, folder)
        if backend != "sqlite" and not os.environ.get("DURABLE_TEST_DATABASE_URL"):
            servers.postgres = stack.enter_context(PostgresServer(folder))
        if backend == "postgres-redis" and not os.environ.get("DURABLE_TEST_REDIS_URL"):
            servers.redis = stack.enter_context(RedisServer(folder))
        servers.environment = environment(servers)
        yield servers


def environment(servers: Servers) -> dict[str, str]:
    runtime = servers.folder / "runtime"
    runtime.mkdir(mode=0o700)
    values = {
        "DURABLE_TEST_BACKEND": servers.backend,
        "DURABLE_TEST_FOLDER": str(servers.folder),
        "XDG_RUNTIME_DIR": str(runtime),
    }
    if servers.postgres:
        values["DURABLE_TEST_DATABASE_URL"] = servers.postgres.url
    if servers.redis:
        values["DURABLE_TEST_REDIS_URL"] = servers.redis.url
    return values
