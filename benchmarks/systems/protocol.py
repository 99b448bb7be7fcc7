"""What a benchmarked system tells the harness, and the loop through which it is asked.

Every system has a folder beside this file: ``requirements.txt`` (pinned; it gets a virtual environment of its own) and
``system.py``, whose last line is ``serve(TheSystem())``. The harness starts ``python system.py client``, which answers
calls, one JSON object a line, and starts what ``worker_commands`` names as worker processes. Only the standard library
is imported here, since each environment imports it.

What the harness hands over stands in the environment: ``BENCH_POSTGRES`` (URL of a database of the system's own),
``BENCH_REDIS`` (URL of a Redis of the run's own), ``BENCH_FOLDER`` (a scratch folder that goes with the run),
``BENCH_VARIANT`` (one of the system's ``variants``, ``doors`` or ``drains``).
"""

from __future__ import annotations

import json
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, TypeVar

T = TypeVar("T")


class Unsupported(Exception):
    """The system has no such thing; the harness leaves the figure out."""


class System(ABC):
    """One durable engine or job queue in its best documented setting.

    A *run* is a workflow of so many no-op steps, each journaled before the next begins; where there are only jobs, a
    run of one step is a job, and more steps are what the documentation offers for that (a chain).
    """

    variants: ClassVar[tuple[str, ...]] = ("sync",)
    """Ways to use it that are measured each on its own, such as ``sync`` and ``async``."""
    doors: ClassVar[tuple[str, ...]] = ()
    """Those of them that start runs each in a way of its own; none named: all."""
    drains: ClassVar[tuple[str, ...]] = ()
    """The ways that are measured where many runs are worked off (S2, S3, S9), if these are others; none named: the
    ``variants``."""
    is_pushed: ClassVar[bool] = False
    """True where runs begin as soon as they are started and cannot be queued up before a worker is there."""

    def versions(self) -> dict[str, str]:
        """What is installed of what ``requirements.txt`` names, and whatever else figures depend on."""
        requirements = Path(sys.argv[0]).with_name("requirements.txt")
        lines = requirements.read_text().split() if requirements.exists() else []
        return {name: version(name) for name in (line.partition("==")[0].partition("[")[0] for line in lines)}

    @property
    def variant(self) -> str:
        return os.environ.get("BENCH_VARIANT") or self.variants[0]

    @abstractmethod
    def prepare(self) -> None:
        """Makes the schema in the empty database; called once, in a process of its own."""

    @abstractmethod
    def connect(self) -> None:
        """Called once by the client process before any other call: clients, connections."""

    @abstractmethod
    def clear(self) -> None:
        """Removes every run, finished or not; no worker is alive then."""

    @abstractmethod
    def enqueue(self, count: int, steps: int) -> None:
        """Starts ``count`` runs of ``steps`` steps, one call each: durable (where the system is) when it returns."""

    def enqueue_many(self, count: int, steps: int, batch: int) -> None:
        """The same through the system's bulk door, ``batch`` runs a call."""
        raise Unsupported("no bulk enqueue")

    @abstractmethod
    def finished(self) -> int:
        """How many runs have finished since ``clear``. Asked some fifty times a second: cheap."""

    def steps_done(self) -> int:
        """How many steps are journaled since ``clear``. Asked some twenty times a second: cheap."""
        raise Unsupported("steps are not counted")

    def latency(self, count: int) -> list[float]:
        """Milliseconds from starting a one-step run to having its result in hand, for ``count`` runs one after another,
        waiting as the documentation does."""
        raise Unsupported("no waiting for a result")

    def history(self, count: int) -> None:
        """``count`` runs that finished during the last twenty days, copies of one that is there. They stay: from then
        on ``clear`` and ``finished`` know later runs only. With a ``count`` of 0 it does just that."""
        raise Unsupported("keeps no finished runs, or not where they could be copied")

    def nap(self, until: float, apart: float, count: int) -> None:
        """Starts ``count`` runs, each of which notes in a step that it is there (``notes.NAPPING``), sleeps until an
        instant of its own, ``until`` or so many times ``apart`` seconds later (Unix time), and then notes by how many
        seconds it is late (``notes.WOKEN``). Where there are only jobs, one starts another one for that instant."""
        raise Unsupported("no sleep")

    def fan_out(self, count: int) -> float:
        """Milliseconds a child of a run that starts ``count`` children and waits for what each returns, from the run's
        first instruction to its last, or as near to that as can be seen."""
        raise Unsupported("no children")

    def loop_in_worker(self, marks: list[int]) -> list[float]:
        """The instants (of one clock, in seconds) of these steps of a run, the last of which ends it."""
        raise Unsupported("no steps")

    def commits(self, count: int) -> None:
        """Only ``limits``: as many transactions of one inserted row, one after another."""
        raise Unsupported("no engine")

    def batched_inserts(self, count: int, batch: int) -> None:
        """Only ``limits``: as many rows, ``batch`` of them in each statement and commit."""
        raise Unsupported("no engine")

    @abstractmethod
    def worker_commands(self, processes: int) -> list[list[str]]:
        """Commands that together are ``processes`` worker processes; they end at SIGTERM."""


def batches(items: Sequence[T], size: int = 500) -> Iterator[Sequence[T]]:
    for first in range(0, len(items), size):
        yield items[first : first + size]


def naps(until: float, apart: float, count: int) -> list[float]:
    """The instants of ``System.nap``."""
    return [until + apart * number for number in range(count)]


def serve(system: System) -> None:
    """``system.py describe``, ``prepare`` or ``client``; other first arguments are the system's own (``worker``)."""
    if sys.argv[1] == "describe":
        told = {"variants": system.variants, "doors": system.doors, "drains": system.drains}
        named = {name: named or system.variants for name, named in told.items()}
        print(json.dumps({**named, "versions": system.versions()}))
        return
    if sys.argv[1] == "prepare":
        system.prepare()
        return
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    # What libraries print must not stand between the answers.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    system.connect()
    say(answers, {"ready": True, "is_pushed": system.is_pushed})
    for line in sys.stdin:
        say(answers, answer(system, json.loads(line)))
    # Threads of a library's own must not keep a client that nobody asks any more.
    os._exit(0)


def answer(system: System, call: dict[str, Any]) -> dict[str, Any]:
    """``{"call": name, ...arguments}`` to ``{"result": …, "seconds": wall, "cpu": of this process}``."""
    function: Callable[..., Any] = getattr(system, call.pop("call"))
    began, cpu = time.perf_counter(), time.process_time()
    try:
        result = function(**call)
    except Unsupported as why:
        return {"unsupported": str(why)}
    return {"result": result, "seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu}


def say(answers: Any, what: dict[str, Any]) -> None:
    answers.write(json.dumps(what) + "\n")
    answers.flush()
