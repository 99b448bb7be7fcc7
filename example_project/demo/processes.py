"""Child processes in groups of their own, and the promise that none of them outlives the household."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

PROJECT = Path(__file__).resolve().parent.parent
STOP_SECONDS = 8.0


class DiedEarly(Exception):
    def __init__(self, process: Process, waited_for: str) -> None:
        self.process = process
        tail = "\n".join(process.log.read_text(errors="replace").splitlines()[-15:])
        super().__init__(f"{process.name}: {waited_for}. The end of {process.log}:\n{tail}")


class Process:
    """A child that leads a process group: whatever it starts in turn belongs to the group."""

    def __init__(self, name: str, arguments: list[str], environment: Mapping[str, str], log: Path) -> None:
        self.name, self.log = name, log
        with log.open("ab") as file:
            self.popen = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=PROJECT,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

    @property
    def group(self) -> int:
        return self.popen.pid

    @property
    def is_alive(self) -> bool:
        return self.popen.poll() is None

    def ask_to_end(self) -> None:
        # To the leader only: it passes the signal on, and a worker that hears it twice does not drain.
        if self.is_alive:
            self.popen.terminate()

    def signal_group(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.group, number)

    def kill(self) -> None:
        """SIGKILL for the leader and everything that it started, at once."""
        self.signal_group(signal.SIGKILL)
        self.popen.wait()


class Household:
    """Starts processes and ends them all on the way out, also when it is killed itself (then its watchdog does)."""

    def __init__(self, logs: Path, environment: Mapping[str, str], *, limit: float | None = None) -> None:
        logs.mkdir(parents=True, exist_ok=True)
        self.environment = {**os.environ, "PYTHONUNBUFFERED": "1", **environment}
        self.processes: list[Process] = []
        self._logs = logs
        reader, self._pipe = os.pipe()
        self._watchdog = subprocess.Popen(
            [sys.executable, "-m", "demo.watchdog", *([] if limit is None else ["--limit", str(limit)])],
            cwd=PROJECT,
            stdin=reader,
            start_new_session=True,
        )
        os.close(reader)

    def start(self, name: str, *arguments: str) -> Process:
        log = self._logs / f"{name.replace(' ', '-')}.log"
        process = Process(name, list(arguments), self.environment, log)
        self._tell_watchdog(f"+{process.group}")
        self.processes.append(process)
        return process

    def bury(self, process: Process) -> None:
        """Kill a process with its group, and forget it."""
        process.kill()
        self.processes.remove(process)
        self._tell_watchdog(f"-{process.group}")

    def check(self) -> None:
        """Raise ``DiedEarly`` where a process has ended by itself."""
        for process in self.processes:
            if not process.is_alive:
                raise DiedEarly(process, f"ended with status {process.popen.returncode}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Last started, first ended: a worker still reaches the gateway while it drains.
        for process in reversed(self.processes):
            process.ask_to_end()
        until = time.monotonic() + STOP_SECONDS
        for process in list(reversed(self.processes)):
            while process.is_alive and time.monotonic() < until:
                time.sleep(0.02)
            self.bury(process)
        os.close(self._pipe)
        self._watchdog.wait()

    def _tell_watchdog(self, line: str) -> None:
        # Where it saw the time run out it is ending the groups, and tells this process by a signal.
        with suppress(BrokenPipeError):
            os.write(self._pipe, line.encode() + b"\n")


def wait_until_ready(process: Process, ready_file: Path, *, seconds: float = 30) -> str:
    """The address that the process announces; raises ``DiedEarly`` where it does not."""
    until = time.monotonic() + seconds
    while not ready_file.exists():
        if not process.is_alive:
            raise DiedEarly(process, f"ended with status {process.popen.returncode}")
        if time.monotonic() > until:
            raise DiedEarly(process, f"was not ready after {seconds:g} s")
        time.sleep(0.02)
    return ready_file.read_text()
