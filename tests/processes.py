"""Real processes for acceptance tests, on the test database of the running test."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import psutil

from tests.servers import Guarded

MANAGE = Path(__file__).with_name("manage.py")
STARTED = "started worker="
FAST = {"LEASE_SECONDS": 2, "HEARTBEAT_SECONDS": 0.5, "REAP_SECONDS": 0.5}
"""For workers of which one is to lose its leases. On a busy machine one may do so too that lives."""
LASTING = {**FAST, "LEASE_SECONDS": 30}
"""For all others: who lives keeps its leases, however slow the machine. SQLite, which waits as long for a lock,
complains of longer ones."""
PATIENCE = 60.0
"""How long it takes that something which has to happen at some time, and does not, fails a test; nothing else. Where it
happens this costs nothing, and a slow machine takes five seconds and more to start a process. A claim about time has a
number of its own, counted from when such slow work is over. Less than the time for which pytest lets a test hang."""

Value = TypeVar("Value")

started: list[Command] = []
_numbers = count(1)


class Command:
    """A management command in a process group of its own, killed at the end of its test at the latest.

    `durable` overrides keys of the setting DURABLE, `env` the environment. What it prints is in `log`, and in the
    report of a test that fails.
    """

    def __init__(
        self,
        *arguments: str,
        durable: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.arguments = arguments
        self.number = next(_numbers)
        self.log_file = Path(os.environ["DURABLE_TEST_FOLDER"]) / f"process-{self.number}.log"
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "DURABLE_TEST_SETTINGS": json.dumps(dict(durable or {}))}
        # As where the project is installed: compiled once. Else each process would begin by compiling all of it.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self._process = Guarded(
            [sys.executable, MANAGE, *arguments],
            log=self.log_file,
            env={**environment, **(env or {})},
        )
        started.append(self)

    def __str__(self) -> str:
        return f"process {self.number} ({' '.join(self.arguments)})"

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.running

    @property
    def returncode(self) -> int | None:
        """As in `subprocess`: None while it runs, negative for the signal that ended it."""
        return self._process.returncode

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    def children(self) -> list[int]:
        """Process ids of the workers under a supervisor, not of what Python asks while it starts (ldconfig)."""
        return sorted(child.pid for child in psutil.Process(self.pid).children() if is_python(child))

    def wait(self, timeout: float = PATIENCE) -> int:
        return self._process.wait(timeout)

    def wait_for_log(self, text: str, timeout: float = PATIENCE) -> None:
        wait_until(lambda: text in self.log or not self.running, timeout, f"{self} to log {text!r}")
        assert text in self.log, f"{self} ended with {self.returncode} before it logged {text!r}"

    def kill(self) -> None:
        """SIGKILL for the whole group at once, as when the machine goes."""
        self._process.kill()

    def kill_leader(self) -> None:
        """SIGKILL for the first process only: the supervisor of a worker."""
        self._process.signal(signal.SIGKILL, group=False)
        self.wait()

    def signal(self, number: int) -> None:
        """A signal for the first process, as `kill` from a shell or a service manager sends it."""
        self._process.signal(number, group=False)

    def stop(self, timeout: float = PATIENCE) -> int:
        """SIGTERM, and wait for the end."""
        self.signal(signal.SIGTERM)
        return self.wait(timeout)

    def freeze(self) -> None:
        self._process.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.signal(signal.SIGCONT)

    def __enter__(self) -> Command:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.kill()


def is_python(process: psutil.Process) -> bool:
    try:
        return process.name().startswith("python")
    except psutil.NoSuchProcess:
        return False


class Worker(Command):
    """`durable_worker` that looks often and has lasting leases, unless `durable` says otherwise. One with a `standby`
    is as users start it: the others save the time that it takes to start one."""

    def __init__(
        self,
        *arguments: str,
        durable: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        standby: bool = False,
    ) -> None:
        self._began = time.monotonic()
        options = arguments if standby else ("--no-standby", *arguments)
        super().__init__("durable_worker", *options, durable={**LASTING, **(durable or {})}, env=env)

    @property
    def starts(self) -> int:
        """How many processes have begun to work under it."""
        return self.log.count(STARTED)

    def wait_for_start(self) -> float:
        """Until its first process works; in how many seconds it did."""
        self.wait_for_log(STARTED)
        return time.monotonic() - self._began


def kill_all() -> None:
    while started:
        started.pop().kill()


def is_alive(pid: int) -> bool:
    """A zombie is not: where nobody reaps orphans (many containers) they stay for ever."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until(condition: Callable[[], Value], timeout: float = PATIENCE, message: str = "") -> Value:
    """Ask until the answer is true, and return it."""
    began = time.monotonic()
    while not (value := condition()):
        waited = time.monotonic() - began
        if waited > timeout:
            raise AssertionError(f"Waited {timeout:g} s for {message or condition}.")
        # Most conditions are queries, and processes that start need the machine more than we do.
        time.sleep(0.02 if waited < 0.2 else 0.05)
    return value
