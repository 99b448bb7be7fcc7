"""The helpers for acceptance tests: processes on the test database, frozen, thawed, killed, with their logs."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.app.models import Counter
from tests.processes import Command, is_alive, wait_until

COUNT = """
from tests.app.models import Counter
from django.conf import settings
Counter.objects.create(name=settings.DURABLE["KEY_PREFIX"], value=1)
"""
SLEEP = "import time; print('asleep'); time.sleep(600)"


@pytest.mark.contract
@pytest.mark.django_db(transaction=True)
def test_a_command_works_on_the_test_database_with_the_settings_it_was_given():
    command = Command("shell", "-c", COUNT, durable={"KEY_PREFIX": "from a process"})
    assert command.wait() == 0, command.log
    assert Counter.objects.get().name == "from a process"


def test_a_command_is_frozen_thawed_and_stopped():
    command = Command("shell", "-c", SLEEP)
    command.wait_for_log("asleep")
    command.freeze()
    wait_until(lambda: psutil.Process(command.pid).status() == psutil.STATUS_STOPPED, message="the freeze")
    command.thaw()
    wait_until(lambda: psutil.Process(command.pid).status() != psutil.STATUS_STOPPED, message="the thaw")
    assert command.stop() == -signal.SIGTERM


def test_kill_takes_the_whole_group_and_kill_leader_the_first_only():
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SLEEP!r}])"
    command = Command("shell", "-c", parent)
    # What Python asks while it starts (ldconfig) is a copy of it for a moment.
    command.wait_for_log("asleep")
    [child] = command.children()
    command.kill_leader()
    assert command.returncode == -signal.SIGKILL
    assert is_alive(child)
    command.kill()
    wait_until(lambda: not is_alive(child), message="the child to be gone")


def test_wait_until_tells_what_it_waited_for():
    with pytest.raises(AssertionError, match="for rain"):
        wait_until(lambda: False, 0.1, "rain")


def test_the_log_of_a_process_is_in_the_report_of_a_failure(tmp_path: Path):
    root = Path(__file__).resolve().parent.parent
    failing = root / "tests" / "fixture_failing.py"
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", str(failing)],
        cwd=root,
        env={"PATH": "", "DURABLE_TEST_BACKEND": "sqlite"},
        capture_output=True,
        text=True,
    )
    assert "1 failed" in result.stdout
    assert "said by the process" in result.stdout.partition("log of process 1")[2]
