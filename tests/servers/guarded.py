"""A child process in a group of its own that cannot outlive the process that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Self

GUARD = Path(__file__).with_name("guard.py")


class Guarded:
    """`command` under a guard; `pid` is the command's own, `returncode` is what `subprocess` would say of it.

    `ending` is the signal that the command's group gets when this process dies; SIGKILL follows some seconds later.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        log: Path | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        user: str | None = None,
        ending: int = signal.SIGKILL,
    ) -> None:
        reading, writing = os.pipe()
        options = [f"--parent={os.getpid()}", f"--pid-pipe={writing}", f"--ending={int(ending)}"]
        if user:
            options.append(f"--user={user}")
        output: IO[bytes] | None = log.open("ab") if log else None
        try:
            self._guard = subprocess.Popen(
                [sys.executable, "-I", "-S", str(GUARD), *options, "--", *map(str, command)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT if output else None,
                pass_fds=[writing],
                start_new_session=True,
                env=env,
                cwd=cwd,
            )
        finally:
            os.close(writing)
            if output:
                output.close()
        with open(reading, "rb") as pipe:
            answer = pipe.read()
        if not answer:
            self._guard.communicate()
            raise RuntimeError(f"{command[0]} did not start. {log.read_text()[-2000:] if log else ''}")
        self.pid = int(answer)

    def poll(self) -> int | None:
        return self._guard.poll()

    @property
    def returncode(self) -> int | None:
        return self._guard.poll()

    @property
    def running(self) -> bool:
        return self._guard.poll() is None

    def signal(self, number: int, *, group: bool = True) -> None:
        """Send a signal to the whole group, or to the command's own process only."""
        # Once the leader is gone its id may belong to a stranger, that of its group may not while a member lives.
        if not group and not self.running:
            return
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number) if group else os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL for the whole group; returns when the command is gone."""
        self.signal(signal.SIGKILL)
        self.wait()

    def wait(self, timeout: float | None = 60.0) -> int:
        """Wait for the command (not for what it left running in its group) and return its exit status."""
        returncode = self._guard.wait(timeout)
        if self._guard.stdin:
            self._guard.stdin.close()
        return returncode

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.kill()
