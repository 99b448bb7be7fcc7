"""The client of a soak, as a process that is started, ended, and asked what it did."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from django_durable.models import Run
from tests.processes import wait_until
from tests.servers import Guarded
from tests.soak.databases import Endings
from tests.soak.plan import TICK, Plan

CHECKOUT = Path(__file__).resolve().parents[2]
END_SECONDS = 60.0
"""Within which a client makes its last calls."""
DRAIN_SECONDS = 120.0
"""Within which every run is over once nobody starts any."""

FULL = 100
"""Runs that wait for a worker while it is measured how many the workers can do: three for each place that they have."""
RAMP = 5.0
"""Seconds until they do."""


@dataclass(frozen=True, slots=True)
class Said:
    """How many runs a client has started, and how late it was at worst. ``stumbled``: what went wrong with it."""

    started: int = 0
    late: float = 0.0
    stumbled: str = ""


class Load:
    """Begins when it is made. ``how``: what the client is to keep up, as its command line has it."""

    def __init__(self, folder: Path, name: str, *how: str) -> None:
        self._stop = folder / f"stop-{name}"
        self._log = folder / f"client-{name}.log"
        command = [sys.executable, "-m", "tests.soak.client", "--seed", name, "--stop", str(self._stop), *how]
        self._process = Guarded(command, log=self._log, env=dict(os.environ), cwd=CHECKOUT)

    @property
    def running(self) -> bool:
        return self._process.running

    def end(self) -> Said:
        self._stop.touch()
        try:
            status = self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = -1
        text = self._log.read_text(errors="replace")
        if status or "Traceback" in text:
            return Said(stumbled=f"the client stumbled ({status}): {text[-2000:]}")
        return Said(**json.loads(text.splitlines()[-1]))


def calibrate(folder: Path, seed: str, plan: Plan) -> float:
    """How many runs a second the workers do that are never without one. Raises RuntimeError, AssertionError."""
    load = Load(folder, f"full-{seed}", "--full", str(FULL))
    time.sleep(RAMP)
    endings = Endings()
    runs, seconds = 0, 0.0
    while seconds < plan.calibration:
        time.sleep(1.0)
        ended = endings.read()
        runs, seconds = runs + ended.runs, seconds + ended.seconds
    said = load.end()
    if said.stumbled:
        raise RuntimeError(said.stumbled)
    drain()
    return runs / seconds


def drain() -> None:
    """Wait until every run that a client has started is over. Raises AssertionError where that takes too long."""
    live = Run.objects.live().exclude(workflow=TICK)
    wait_until(lambda: not live.exists(), DRAIN_SECONDS, "every run to be over")
