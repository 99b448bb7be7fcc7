"""The process that starts a system's runs and counts them: ``python system.py client``, asked by lines of JSON."""

from __future__ import annotations

import json
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

ENDS_WITHIN = 10.0
ANSWERS_WITHIN = 900.0
"""Seconds. The longest (a history of a million runs, on a slow machine) takes a few hundred."""


class Missing(Exception):
    """The system has no such thing: its figure is left out."""


@dataclass(frozen=True)
class Answer:
    """``seconds`` of wall time and of the client's CPU, as the client itself measured them."""

    result: Any
    seconds: float
    cpu: float


class Client:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.is_pushed = bool(self._hear()["is_pushed"])

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, call: str, **arguments: Any) -> Answer:
        """Raises Missing where the system does not support it, RuntimeError where its client died, TimeoutError where
        it waits for ever."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"call": call, **arguments}) + "\n")
        self._process.stdin.flush()
        heard = self._hear()
        if "unsupported" in heard:
            raise Missing(heard["unsupported"])
        return Answer(heard["result"], heard["seconds"], heard["cpu"])

    def count(self, call: str) -> int:
        """``finished`` or ``steps_done``."""
        return int(self.ask(call).result)

    def _hear(self) -> Any:
        """Raises TimeoutError. There is one line to each question, so none is left over in a buffer."""
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], ANSWERS_WITHIN)[0]:
            raise TimeoutError(f"the client has not answered in {ANSWERS_WITHIN:.0f} s")
        if not (line := self._process.stdout.readline()):
            raise RuntimeError(f"the client ended with {self._process.wait()}")
        return json.loads(line)


@contextmanager
def client(python: Path, script: Path, environment: dict[str, str]) -> Iterator[Client]:
    command = [str(python), str(script), "client"]
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        yield Client(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()


SHARE, NEAR = 10, 2
"""Of the time that passes, so much more than the counting takes: it must not be what is measured. Near the end less, so
that the end is not seen late by a twentieth of what is soon over."""


def wait_until(client: Client, call: str, count: int, *, timeout: float, pause: float = 0.005) -> tuple[int, float]:
    """Asks until at least ``count`` are there: how many, and when (``perf_counter``). Raises TimeoutError.

    Between two looks lie at most half of the time that what is left takes at the present rate, and ``pause`` or more
    where that is far away.
    """
    ends = time.perf_counter() + timeout
    before, looked = 0, -inf
    while True:
        answer, now = client.ask(call), time.perf_counter()
        there = int(answer.result)
        if there >= count:
            return there, now
        if now > ends:
            raise TimeoutError(f"{call}: {there} of {count} after {timeout:.0f} s")
        left = (count - there) * (now - looked) / (there - before) if there > before else inf
        before, looked = there, now
        time.sleep(min(max(pause, SHARE * answer.seconds), max(left / 2, NEAR * answer.seconds)))
