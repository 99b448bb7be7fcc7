"""How a worker process keeps its memory. By soak, seed 114032, it grew for three quarters of an hour."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import subprocess
import sys
from collections.abc import Iterator

import pytest

from django_durable.worker.memory import ARENAS, YOUNG_OBJECTS, collect_less_often, share_arenas
from tests.app.memory import keeping
from tests.processes import Worker

THREADS = 4
"""Each would have an arena of its own: glibc makes up to eight for each core."""
IN_ARENAS = f"""
import ctypes, sys, threading
from django_durable.worker import memory

library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
memory.settle()
all_there = threading.Barrier({THREADS})

def need_some():
    all_there.wait()
    for _ in range(1000):
        library.malloc(10_000)
    all_there.wait()

threads = [threading.Thread(target=need_some) for _ in range({THREADS})]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
library.malloc_info(0, ctypes.c_void_p.in_dll(library, "stdout"))
library.fflush(None)
"""


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.parametrize(("set_to", "becomes"), [(700, YOUNG_OBJECTS), (0, 0), (2 * YOUNG_OBJECTS, 2 * YOUNG_OBJECTS)])
def test_young_objects_are_looked_through_less_often_unless_the_project_has_its_say(set_to: int, becomes: int) -> None:
    gc.set_threshold(set_to, 7, 8)
    collect_less_often()
    assert gc.get_threshold() == (becomes, 7, 8)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="there are arenas in glibc only")
@pytest.mark.parametrize(
    ("said", "arenas"),
    [({}, ARENAS), ({"MALLOC_ARENA_MAX": "3"}, 3), ({"GLIBC_TUNABLES": "glibc.malloc.arena_max=3"}, 3)],
    ids=["nothing", "variable", "tunable"],
)
def test_threads_share_two_arenas_unless_the_environment_has_its_say(said: dict[str, str], arenas: int) -> None:
    kept = {name: value for name, value in os.environ.items() if name not in ("MALLOC_ARENA_MAX", "GLIBC_TUNABLES")}
    told = subprocess.run(
        [sys.executable, "-c", IN_ARENAS], env=kept | said, capture_output=True, text=True, check=True
    ).stdout
    assert told.count("<heap nr=") == arenas


def test_a_library_without_arenas_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MALLOC_ARENA_MAX", "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)
    asked: list[None] = []
    monkeypatch.setattr(ctypes, "CDLL", asked.append)
    share_arenas()
    assert asked == [None]


@pytest.mark.django_db(transaction=True)
def test_a_worker_process_settles() -> None:
    worker = Worker()
    run = keeping.enqueue()
    assert run.result(timeout=60) == {"young": YOUNG_OBJECTS, "has_frozen": True}
    assert worker.stop() == 0
