"""Nothing is left running, whoever dies: the promise behind the demo and `serve`."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from demo.processes import DiedEarly, Household, wait_until_ready
from tests.example.conftest import PROJECT
from tests.example.waiting import wait_for

# A child with a child of its own, as a worker is; it writes both process ids.
FAMILY = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with open(sys.argv[1] + ".draft", "w") as file:
    file.write(f"{os.getpid()} {child.pid}")
os.replace(sys.argv[1] + ".draft", sys.argv[1])
time.sleep(600)
"""


def test_leaving_the_household_ends_children_and_grandchildren(tmp_path: Path) -> None:
    with Household(tmp_path / "logs", {}) as household:
        household.start("family", "-c", FAMILY, str(tmp_path / "pids"))
        pids = read_pids(tmp_path / "pids")
        assert all(is_alive(pid) for pid in pids)
    wait_for(lambda: not any(is_alive(pid) for pid in pids))


def test_burying_one_kills_its_whole_group_and_spares_the_others(tmp_path: Path) -> None:
    with Household(tmp_path / "logs", {}) as household:
        first = household.start("first", "-c", FAMILY, str(tmp_path / "first"))
        household.start("second", "-c", FAMILY, str(tmp_path / "second"))
        dead, spared = read_pids(tmp_path / "first"), read_pids(tmp_path / "second")
        household.bury(first)
        wait_for(lambda: not any(is_alive(pid) for pid in dead))
        assert all(is_alive(pid) for pid in spared)
        household.check()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_when_the_household_is_killed_its_watchdog_ends_the_family(tmp_path: Path, number: signal.Signals) -> None:
    code = (
        "import sys, time; from pathlib import Path; from demo.processes import Household\n"
        "household = Household(Path(sys.argv[1]) / 'logs', {})\n"
        f"household.start('family', '-c', {FAMILY!r}, sys.argv[1] + '/pids')\n"
        "time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=PROJECT) as household:
        pids = read_pids(tmp_path / "pids")
        household.send_signal(number)
    wait_for(lambda: not any(is_alive(pid) for pid in pids))


def test_when_the_time_is_up_the_watchdog_ends_all_of_it(tmp_path: Path) -> None:
    # The family is there before the time begins: it takes as long to start as this machine makes it.
    code = (
        "import os, sys, time; from pathlib import Path; from demo import processes\n"
        "folder = Path(sys.argv[1])\n"
        f"family = processes.Process('family', ['-c', {FAMILY!r}, str(folder / 'pids')], os.environ, folder / 'log')\n"
        "while not (folder / 'pids').exists():\n"
        "    time.sleep(0.01)\n"
        "processes.Process = lambda *arguments: family\n"
        "with processes.Household(folder / 'logs', {}, limit=5) as household:\n"
        "    household.start('family')\n"
        "    time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], cwd=PROJECT, stderr=subprocess.PIPE
    ) as household:
        pids = read_pids(tmp_path / "pids")
        _, errors = household.communicate(timeout=60)
    assert b"the time is up" in errors
    assert household.returncode == -signal.SIGTERM
    wait_for(lambda: not any(is_alive(pid) for pid in pids))


def test_a_process_that_dies_early_is_reported_with_its_log(tmp_path: Path) -> None:
    with Household(tmp_path / "logs", {}) as household:
        process = household.start("doomed", "-c", "import sys; sys.exit('no port left')")
        with pytest.raises(DiedEarly, match=r"(?s)doomed: ended with status 1.*no port left"):
            wait_until_ready(process, tmp_path / "never")
        with pytest.raises(DiedEarly):
            household.check()


def read_pids(path: Path) -> list[int]:
    wait_for(path.exists)
    return [int(pid) for pid in path.read_text().split()]


def is_alive(pid: int) -> bool:
    try:
        # A dead process that its parent has not asked about yet still has a number.
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
