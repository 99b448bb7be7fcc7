"""Starts runs in every way that there is, sends them their events and cancels some; none of them is to fail.

A process of its own: `python -m tests.soak.client --seed N --stop FILE (--rate R | --full N)`, with so many runs a
second whatever becomes of them, or as many as keep so many of them waiting for a worker. Once the file is there it
starts nothing more, makes the calls that are due, and says in its last line what it did. No fault is expected: an error
ends the thread that meets it, with a traceback.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from tests.chaos.client import in_thread
from tests.chaos.later import Later
from tests.chaos.mixture import Started, start_runs, workflow_called
from tests.chaos.programs import BAD, Program, draw, events_of, payload_of

STARTERS, SENDERS = 3, 3
AGAIN = 0.3
"""Seconds before a call is made again that met a run which somebody held."""

WAYS = {"single": 46, "transaction": 24, "many": 10, "keyed": 20}
WORKFLOWS = {"interpret": 52, "interpret_async": 44, "interpret_limited": 4}
"""Few with a limit: it is the workers that are to be at 70 %, not six places."""

CHANCE_OF_CANCEL = 0.05
LATE_MOST = 1.2
"""Seconds between the start of a run and an event for it, or its cancellation."""
PAUSE = 0.02
"""Seconds between two looks whether enough runs wait."""


def draw_program(chance: random.Random) -> Program:
    """One of chaos that neither kills its process nor wants to fail."""
    return [node for node in draw(chance) if node[0] not in ("poison", BAD)]


class Client:
    """``started`` runs so far, at worst ``late`` seconds after they were due; their events and ends `later` makes."""

    def __init__(self, seed: str, later: Later) -> None:
        self._seed = seed
        self._later = later
        self._chance = random.Random(seed)
        self._numbers = count()
        self.started = 0
        self.late = 0.0

    def keep_rate(self, rate: float, stop: Path) -> None:
        """So many runs a second, at times that know nothing of each other nor of the workers."""
        due = time.monotonic()
        while not stop.exists():
            early = due - time.monotonic()
            if early > 0:
                time.sleep(min(early, 0.1))
                continue
            self.late = max(self.late, -early)
            due += self.start_some() * self._chance.expovariate(rate)

    def keep_full(self, wanted: int, stop: Path) -> None:
        """As many as it takes to have so many wait for a worker, those apart that wait at a limit."""
        from django_durable.models import Run

        ready = Run.objects.filter(status="queued", limit_key__isnull=True)
        while not stop.exists():
            if ready.count() < wanted:
                self.start_some()
            else:
                time.sleep(PAUSE)

    def start_some(self) -> int:
        """How many runs that were."""
        way = self._one_of(WAYS)
        many = {"transaction": 2, "many": self._chance.randint(3, 6)}.get(way, 1)
        given = {f"{self._seed}-{next(self._numbers)}": draw_program(self._chance) for _ in range(many)}
        for tag, handle in self._start(way, self._one_of(WORKFLOWS), given).items():
            self._follow(handle, given[tag])
        self.started += many
        return many

    def _one_of(self, weights: dict[str, int]) -> str:
        return self._chance.choices(list(weights), list(weights.values()))[0]

    def _start(self, way: str, workflow: str, given: dict[str, Program]) -> Started:
        from django.db import transaction

        from django_durable.conf import durable_settings

        if way == "keyed":
            [(tag, program)] = given.items()
            # A key keeps its run: no longer than it is kept anyway.
            seconds = durable_settings().RETENTION_DAYS * 86_400
            start = workflow_called(workflow).using(idempotency_key=tag, idempotency_ttl=seconds)
            first, second = start.enqueue(tag, program), start.enqueue(tag, program)
            assert first.id == second.id
            return {tag: second}
        if way == "transaction":
            with transaction.atomic():
                return start_runs(workflow, given, is_many=False)
        return start_runs(workflow, given, is_many=way == "many")

    def _follow(self, handle: Any, program: Program) -> None:
        for event in events_of(program):
            self._later.add(self._chance.uniform(0, LATE_MOST), partial(send, handle, event))
        if self._chance.random() < CHANCE_OF_CANCEL:
            self._later.add(self._chance.uniform(0, LATE_MOST), partial(cancel, handle))


def send(handle: Any, event: str) -> bool:
    from django_durable.exceptions import IllegalTransition

    # It may have been cancelled before.
    with suppress(IllegalTransition):
        handle.send_event(event, payload_of(event), event)
    return True


def cancel(handle: Any) -> bool:
    from django_durable.exceptions import RunLocked

    try:
        handle.cancel()
    except RunLocked:
        return False
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    import django

    django.setup()
    later = Later(AGAIN)
    senders = [in_thread(later.work) for _ in range(SENDERS)]
    clients = [Client(f"{options.seed}-{number}", later) for number in range(STARTERS)]
    for thread in [in_thread(partial(work, client, options)) for client in clients]:
        thread.join()
    later.close()
    for thread in senders:
        thread.join()
    print(json.dumps({"started": sum(one.started for one in clients), "late": max(one.late for one in clients)}))
    return 0


def work(client: Client, options: argparse.Namespace) -> None:
    if options.full is None:
        client.keep_rate(options.rate / STARTERS, options.stop)
    else:
        client.keep_full(options.full, options.stop)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", required=True)
    parser.add_argument("--stop", type=Path, required=True, help="start nothing more once this file is there")
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--rate", type=float, help="runs a second")
    how.add_argument("--full", type=int, help="runs that wait for a worker")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
