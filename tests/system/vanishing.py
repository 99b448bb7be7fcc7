"""Machines before the PostgreSQL of the run that vanish as machines do: nothing comes from them any more, and no end of
a connection either. Each is a network of its own (`ip netns`), in which somebody hands on what is sent there."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

import psycopg

from tests.servers import Guarded, PostgresServer

PORT = 5432
START_SECONDS = 60.0
FORWARDING = Path(__file__).with_name("forwarding.py")


class Machine:
    """`with Machine(folder, server, 1) as machine:`; PostgreSQL answers at its ``address``, PORT, until it vanishes.

    ``number`` tells those of one test apart. The addresses are of the range for tests of networks (RFC 2544).
    """

    def __init__(self, folder: Path, server: PostgresServer, number: int) -> None:
        self.name = f"durable-{os.getpid()}-{number}"
        net = f"198.18.{os.getpid() % 256}"
        self._here, self.address = f"{net}.{4 * number + 1}", f"{net}.{4 * number + 2}"
        self._link = f"dv{os.getpid()}o{number}"
        self._log = folder / f"{self.name}.log"
        self._socket = server.folder / f".s.PGSQL.{PORT}"
        self._process: Guarded | None = None

    def vanish(self) -> None:
        """First nobody hears of it any more, and then it dies: its connections end, and nobody is told."""
        self._ip("route", "add", "blackhole", f"{self._here}/32")
        self._kill()

    def __enter__(self) -> Self:
        ip("netns", "add", self.name)
        try:
            ip("link", "add", self._link, "type", "veth", "peer", "name", "inside", "netns", self.name)
            ip("addr", "add", f"{self._here}/30", "dev", self._link)
            ip("link", "set", self._link, "up")
            self._ip("addr", "add", f"{self.address}/30", "dev", "inside")
            self._ip("link", "set", "inside", "up")
            inside = ["ip", "netns", "exec", self.name]
            command = [*inside, sys.executable, str(FORWARDING), self.address, str(PORT), str(self._socket)]
            self._process = Guarded(command, log=self._log, env=dict(os.environ))
            self._wait_until_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._kill()
        # With it goes its end of the link, and so the other one.
        ip("netns", "delete", self.name)

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def _ip(self, *arguments: str) -> None:
        ip("-n", self.name, *arguments)

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS
        while self._process.running and time.monotonic() < deadline:
            try:
                psycopg.connect(host=self.address, port=PORT, user="postgres", dbname="postgres").close()
                return
            except psycopg.OperationalError:
                time.sleep(0.02)
        raise RuntimeError(f"nobody answers at {self.address}:\n{self._log.read_text(errors='replace')[-2000:]}")


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)
