"""Processes that are pinned to a CPU: which ones, to which, and what becomes of those that cannot be."""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command

from django_durable.management.commands import durable_worker
from django_durable.worker import affinity
from django_durable.worker.affinity import Cpus, pin_to
from django_durable.worker.spawning import CHILD_ENV
from django_durable.worker.supervisor import Supervisor
from tests.processes import Worker, wait_until
from tests.worker.children import commanded

pytestmark = pytest.mark.django_db(transaction=True)

MISSING = 100_000
"""No machine has so many."""


@pytest.fixture
def allowed() -> Iterator[list[int]]:
    before = os.sched_getaffinity(0)
    yield sorted(before)
    for thread in os.listdir("/proc/self/task"):
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread), before)


# --- which CPU is whose -----------------------------------------------------------------------------


def of(monkeypatch: pytest.MonkeyPatch, allowed: set[int], first: int, places: int) -> list[int]:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: allowed)
    monkeypatch.setattr(random, "randrange", lambda count: first)
    cpus = Cpus()
    return [cpus.of(place) for place in range(places)]


def test_they_are_taken_in_turns_beginning_at_a_random_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(affinity, "CORES", tmp_path)
    assert of(monkeypatch, {2, 3, 7}, 1, 4) == [3, 7, 2, 3]


@pytest.mark.parametrize(("pairs", "expected"), [("0-1 2-3", [0, 2, 1, 3]), ("0,2 1,3", [0, 1, 2, 3])])
def test_of_two_threads_of_a_core_one_comes_first(
    pairs: str, expected: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(affinity, "CORES", tmp_path)
    for pair in pairs.split():
        for cpu in pair.replace("-", ",").split(","):
            folder = tmp_path / f"cpu{cpu}" / "topology"
            folder.mkdir(parents=True)
            (folder / "thread_siblings_list").write_text(f"{pair}\n")
    assert of(monkeypatch, {0, 1, 2, 3}, 0, 4) == expected


def test_those_that_may_be_used_later_count_for_who_begins_later(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = {0, 1}
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: allowed)
    cpus = Cpus()
    allowed -= {0}
    assert (cpus.count, cpus.of(0), cpus.of(1)) == (1, 1, 1)


# --- whom the supervisor tells of one ---------------------------------------------------------------


def told(monkeypatch: pytest.MonkeyPatch, supervisor: Supervisor) -> list[tuple[bool, int | None]]:
    """Of each child that it starts, whether it is isolated and the CPU that it is told."""
    found: list[tuple[bool, int | None]] = []

    def started(command: list[str], *, env: dict[str, str], pass_fds: tuple[int, ...]) -> None:
        one = json.loads(env[CHILD_ENV])
        found.append((one["isolated"], one["cpu"]))

    monkeypatch.setattr(subprocess, "Popen", started)
    supervisor._start_due()
    for child in supervisor._children:
        child.close()
    supervisor._db.close()
    return found


def test_each_has_one_but_those_that_are_isolated(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cpus = SimpleNamespace(of=lambda place: 10 * place, count=2)
    supervisor = Supervisor(["never started"], 3, cpus=cast(Any, cpus))
    assert "3 processes are pinned to 2 CPUs" in caplog.text
    supervisor._suspects = 1
    assert told(monkeypatch, supervisor) == [(False, 0), (False, 10), (False, 20), (True, None)]


def test_as_a_rule_none_is_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, Supervisor(["never started"], 1)) == [(False, None)]
    assert commanded(monkeypatch)["cpus"] is None
    assert isinstance(commanded(monkeypatch, "--cpu-affinity")["cpus"], Cpus)


@pytest.mark.parametrize("system", ["another", "no lock"])
def test_where_it_is_impossible_or_does_harm_the_command_says_so(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if system == "another":
        monkeypatch.delattr(os, "sched_setaffinity")
    else:
        monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    with pytest.raises(CommandError, match=r"--cpu-affinity: (this system cannot pin|without a GIL)"):
        commanded(monkeypatch, "--cpu-affinity")


# --- who is told of one -----------------------------------------------------------------------------


@pytest.mark.parametrize(("words", "pinned"), [({"cpu": 3}, [3]), ({"cpu": None}, []), ({}, [])])
def test_a_child_is_pinned_to_what_it_is_told(
    words: dict[str, int], pinned: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A supervisor of before says nothing of it."""
    found: list[int] = []
    given = {"id": str(uuid4()), "orders": 3, "reports": 4, "isolated": False, "loops": False, **words}
    monkeypatch.setenv(CHILD_ENV, json.dumps(given))
    monkeypatch.setattr(durable_worker, "run_child", lambda *given, stands_by: None)
    monkeypatch.setattr(durable_worker, "pin_to", found.append)
    # What it tells the connections of a worker is not for those of later tests.
    monkeypatch.setattr(durable_worker.silence, "bound", lambda: None)
    call_command("durable_worker")
    assert found == pinned


def test_threads_that_are_there_already_are_pinned_too(allowed: list[int]) -> None:
    """As those that a project starts while it is imported."""
    ends = threading.Event()
    thread = threading.Thread(target=ends.wait)
    thread.start()
    try:
        pin_to(allowed[-1])
        assert os.sched_getaffinity(0) == os.sched_getaffinity(thread.native_id or 0) == {allowed[-1]}
    finally:
        ends.set()
        thread.join()


def test_where_it_may_not_be_used_any_more_all_go_on_as_before(
    allowed: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="django_durable.worker"):
        pin_to(MISSING)
    assert f"could not be pinned to cpu={MISSING}" in caplog.text
    assert sorted(os.sched_getaffinity(0)) == allowed


def of_threads(pid: int) -> set[frozenset[int]]:
    found = set()
    for thread in os.listdir(f"/proc/{pid}/task"):
        # One that asks Redis something at the start is soon over.
        with suppress(ProcessLookupError):
            found.add(frozenset(os.sched_getaffinity(int(thread))))
    return found


@pytest.mark.parametrize("arguments", [(), ("--no-fork",)], ids=["copies", "executed"])
def test_all_threads_of_a_process_are_pinned_and_so_is_who_takes_its_place(
    arguments: tuple[str, ...], allowed: list[int]
) -> None:
    worker = Worker("--processes", "2", "--cpu-affinity", *arguments)
    wait_until(lambda: worker.starts == 2, message="both")
    before: dict[int, Any] = {child: of_threads(child) for child in worker.children()}
    assert all(len(sets) == 1 for sets in before.values())
    kept = {number for sets in before.values() for one in sets for number in one}
    assert len(kept) == min(2, len(allowed))
    assert kept <= set(allowed)
    assert of_threads(worker.pid) == {frozenset(allowed)}
    first = worker.children()[0]
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: worker.starts == 3, message="a replacement")
    [replacement] = set(worker.children()) - set(before)
    assert of_threads(replacement) == before[first]
    assert worker.stop() == 0
