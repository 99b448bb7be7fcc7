"""A system's worker processes: started on an empty queue, held while it is filled, let go all at once.

Whoever starts its workers on a full queue measures how long they take to start: the fastest would be done with half of
it before its second process is there.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

ENDS_WITHIN = 40.0
"""Seconds; the slowest (Celery, stopped in the middle of its work) has taken 32."""
DUMPS_WITHIN = 5.0
LINES_TOLD = 200


class Workers:
    def __init__(self, processes: Sequence[subprocess.Popen[bytes]]) -> None:
        self._processes = processes

    def all(self) -> list[psutil.Process]:
        """Them and whatever they started."""
        found: list[psutil.Process] = []
        for process in self._processes:
            try:
                leader = psutil.Process(process.pid)
                found += [leader, *leader.children(recursive=True)]
            except psutil.NoSuchProcess:
                continue
        return found

    def check(self) -> None:
        """Raises RuntimeError where one has ended."""
        for process in self._processes:
            if process.poll() is not None:
                raise RuntimeError(f"a worker ended with {process.returncode}")

    def hold(self) -> None:
        self._signal(signal.SIGSTOP)

    def let_go(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        for process in self.all():
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)


@contextmanager
def workers(commands: list[list[str]], environment: dict[str, str], log: Path) -> Iterator[Workers]:
    with log.open("ab") as output:
        processes = [
            subprocess.Popen(command, env=environment, stdout=output, stderr=output, start_new_session=True)
            for command in commands
        ]
    started = Workers(processes)
    try:
        yield started
    except (RuntimeError, TimeoutError):
        _tell_of(started, log)
        raise
    finally:
        _end(started, processes)


def _tell_of(started: Workers, log: Path) -> None:
    """What they have said, and where each of their threads is: what was waited for did not come."""
    # Python writes all stacks where it is aborted, as ``environment`` asks of it.
    started.let_go()
    everyone = started.all()
    for process in everyone:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGABRT)
    psutil.wait_procs(everyone, DUMPS_WITHIN)
    print(*log.read_text(errors="replace").splitlines()[-LINES_TOLD:], sep="\n", flush=True)


def _end(started: Workers, processes: Sequence[subprocess.Popen[bytes]]) -> None:
    everyone = started.all()
    started.let_go()
    for process in processes:
        process.terminate()
    _, alive = psutil.wait_procs(everyone, ENDS_WITHIN)
    for process in alive:
        process.kill()
    for leader in processes:
        leader.wait()
