"""What is read of a process is what it has."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from tests.processes import Command, wait_until
from tests.soak.measures import Kind, Measure, Values
from tests.soak.sampling import processes_of, read_process

MEGABYTES, FILES, THREADS = 64, 7, 3
MEGABYTE = 1 << 20

GROWING = f"""
import os, sys, threading
def say():
    print("ready", flush=True)
    sys.stdin.readline()
say()
held = b"x" * ({MEGABYTES} << 20)
files = [open(os.devnull) for _ in range({FILES})]
for _ in range({THREADS}):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
say()
"""


@pytest.fixture
def growing() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", GROWING]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def read_when_ready(process: subprocess.Popen[str]) -> Values:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return read_process(psutil.Process(process.pid), "it")


def test_what_a_process_takes_is_read_of_it(growing: subprocess.Popen[str]) -> None:
    before = read_when_ready(growing)
    assert growing.stdin is not None
    growing.stdin.write("\n")
    growing.stdin.flush()
    after = read_when_ready(growing)
    more = {measure.kind: after[measure] - before[measure] for measure in before}
    assert more[Kind.RSS] == pytest.approx(MEGABYTES * MEGABYTE, rel=0.1)
    assert more[Kind.PSS] == pytest.approx(MEGABYTES * MEGABYTE, rel=0.1)
    assert (more[Kind.FDS], more[Kind.THREADS]) == (FILES, THREADS)
    assert before[Measure(Kind.THREADS, "it")] == 1


def test_who_is_gone_is_not_read(growing: subprocess.Popen[str]) -> None:
    process = psutil.Process(growing.pid)
    growing.kill()
    growing.wait()
    with pytest.raises(psutil.NoSuchProcess):
        read_process(process, "it")


def test_a_supervisor_is_read_and_those_under_it() -> None:
    parent = (
        "import subprocess, sys; children = [subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])"
        " for _ in range(2)]; [child.wait() for child in children]"
    )
    command = Command("shell", "-c", parent)
    wait_until(lambda: len(command.children()) == 2, message="two children")
    found = processes_of(command)
    assert list(found) == ["supervisor", "worker 1", "worker 2"]
    assert found["supervisor"].pid == command.pid
    assert [found["worker 1"].pid, found["worker 2"].pid] == command.children()
