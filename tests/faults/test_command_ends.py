"""However the command ends, nothing that it has started outlives it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.faults.backends import BACKENDS
from tests.processes import wait_until

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "tests.faults", "--blind", "--scenario", "plain", "--lanes", "1"]
FORKS = 3
"""Of the process of a backend: its lane, and the lane's rescue and victim."""


@pytest.fixture
def environment(folder: Path) -> dict[str, str]:
    """Of a command that starts servers of its own, and puts what it writes into ``folder``."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DURABLE_TEST_")}
    return {**kept, "TMPDIR": str(folder)}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_nothing_outlives_the_command(number: signal.Signals, environment: dict[str, str], folder: Path) -> None:
    with subprocess.Popen(COMMAND, cwd=ROOT, env=environment, start_new_session=True) as command:
        outer = psutil.Process(command.pid)
        wait_until(lambda: all(count > FORKS for count in members(outer).values()), message="lanes on both backends")
        groups = groups_of(outer)
        command.send_signal(number)
        assert command.wait(60)
    wait_until(lambda: not alive_in(groups), message="all processes to end")
    wait_until(lambda: not any(folder.iterdir()), message="the folders to be removed")


def members(outer: psutil.Process) -> dict[str, int]:
    """Of each backend, the processes that have the command line of its first one: that one, and its forks."""
    lines = [line for one in outer.children(recursive=True) if "guard.py" not in (line := command_line(one))]
    return {name: sum(f"--backend {name}" in line for line in lines) for name in BACKENDS}


def command_line(process: psutil.Process) -> str:
    with suppress(psutil.NoSuchProcess):
        return " ".join(process.cmdline())
    return ""


def groups_of(outer: psutil.Process) -> set[int]:
    """Process groups of all that it has started: who is forked later is in one of them too."""
    groups = {outer.pid}
    for process in outer.children(recursive=True):
        with suppress(ProcessLookupError):
            groups.add(os.getpgid(process.pid))
    return groups


def alive_in(groups: set[int]) -> list[str]:
    alive = []
    for process in psutil.process_iter(["status", "cmdline"]):
        with suppress(ProcessLookupError):
            if os.getpgid(process.pid) in groups and process.info["status"] != psutil.STATUS_ZOMBIE:
                alive.append(str(process.info["cmdline"]))
    return alive
