"""A PgBouncer of our own before the PostgreSQL of the run: in transaction mode, with few connections behind it."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Self

import psycopg

from tests.servers import Guarded, PostgresServer

PORT = 6432
START_SECONDS = 60.0
CONFIGURATION = """
[databases]
* = host={server} user=postgres

[pgbouncer]
unix_socket_dir = {folder}
listen_port = {port}
listen_addr =
auth_type = any
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 500
query_wait_timeout = 10
{more}
"""


class PgBouncer:
    """`with PgBouncer(folder, server, size=5) as bouncer:`; its socket is in ``bouncer.folder``, at PORT."""

    def __init__(self, folder: Path, server: PostgresServer, *, size: int, more: str = "") -> None:
        self.folder = folder / "pgbouncer"
        self.log = self.folder / "log"
        self._server = server
        self._text = CONFIGURATION.format(server=server.folder, folder=self.folder, port=PORT, size=size, more=more)
        self._process: Guarded | None = None

    def url(self, name: str) -> str:
        return f"postgresql://postgres@/{name}?host={self.folder}&port={PORT}"

    def start(self) -> None:
        if self._process is not None and self._process.running:
            return
        self.folder.mkdir(exist_ok=True)
        configuration = self.folder / "pgbouncer.ini"
        configuration.write_text(self._text)
        if self._server.user:
            # It does not run as root, and has to reach the server's socket.
            for path in (self.folder, configuration):
                shutil.chown(path, self._server.user)
            self.folder.chmod(0o755)
        command = [str(shutil.which("pgbouncer")), str(configuration)]
        self._process = Guarded(command, log=self.log, user=self._server.user, env=dict(os.environ))
        self._wait_until_ready()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            # One that was killed leaves its socket, at which the next one would find somebody alive.
            (self.folder / f".s.PGSQL.{PORT}").unlink(missing_ok=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.kill()

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS
        while self._process.running and time.monotonic() < deadline:
            try:
                psycopg.connect(self.url("postgres"), autocommit=True, prepare_threshold=None).close()
                return
            except psycopg.OperationalError:
                time.sleep(0.02)
        raise RuntimeError(f"PgBouncer did not start:\n{self.log.read_text(errors='replace')[-2000:]}")
