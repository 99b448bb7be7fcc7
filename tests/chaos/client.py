"""Starts runs in every way that there is, cancels some, sends events, and logs what it was told of each call.

A process of its own: `python -m tests.chaos.client --seed N --rate R --stop FILE [--mixture NAME]`. It goes on through
outages; once the file is there it starts nothing more, makes the calls that are due, and ends.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.chaos.calls import Call
from tests.chaos.later import Later
from tests.chaos.mixture import MIXTURES, Load, Started, choose, start_runs, workflow_called
from tests.chaos.programs import Program, events_of, has_children, payload_of
from tests.chaos.released.unpacking import RELEASED
from tests.chaos.story import TERMINAL

STARTERS, SENDERS = 3, 3
BEHIND_MOST = 5.0
"""Seconds of lost time that are made up for after an outage."""

AGAIN = 0.3
"""Seconds before a call is made again of which nobody knows how it came out."""

UNKNOWN_SECONDS = 15.0
"""How long a run is looked for that may never have been stored."""

WAYS = {"single": 46, "transaction": 24, "many": 10, "keyed": 20}
CHANCE_OF_ROLLBACK = 0.25
CHANCE_OF_CANCEL = 0.05
CHANCE_OF_CANCEL_WITH_CHILDREN = 0.2
"""Few runs have children, and what becomes of these is what such a cancellation is for."""

CHANCE_OF_TWICE = 0.15
LATE_MOST = 1.2
"""Seconds between the start of a run and an event for it, or its cancellation."""

CHILDREN_MOST = 30.0
"""Seconds that a cancellation waits for a run to have a child that is not over. First it may be queued for long."""

LOOK_AGAIN = 1.0
"""Seconds after which it looks for one again."""

STUMBLES = (AttributeError,) if RELEASED in os.environ else ()
"""What 0.1.0 raises where the wake after a commit is refused, as it stumbles over its own report of that."""


class RolledBack(Exception):
    """The caller's transaction ends so, on purpose."""


class Client:
    """`start_some` makes one call that starts runs; what follows from it `later` makes."""

    def __init__(self, seed: str, later: Later, mixture: Mapping[Load, int]) -> None:
        self._seed = seed
        self._chance = random.Random(seed)
        self._numbers = count()
        self._later = later
        self._mixture = mixture

    def start_some(self) -> int:
        """How many runs that was to start."""
        way = self._chance.choices(list(WAYS), list(WAYS.values()))[0]
        load = choose(self._chance, self._mixture)
        many = self._how_many(way)
        given = {f"{self._seed}-{next(self._numbers)}": load.draw_program(self._chance) for _ in range(many)}
        workflow = load.draw_workflow(self._chance)
        if way == "keyed":
            self._start_keyed(workflow, given)
        elif way == "transaction" or any(list(events_of(program)) for program in given.values()):
            # The ids are known before the commit: who does not hear how that came out can ask for them.
            is_many, is_undone = way == "many", way == "transaction" and self._chance.random() < CHANCE_OF_ROLLBACK
            call = Call("enqueue", list(given))
            self._follow(given, self._in_transaction(call, workflow, given, is_many, is_undone))
        else:
            call = Call("enqueue", list(given))
            self._follow(given, self._plainly(call, partial(self._start, call, workflow, given, way == "many")))
        return len(given)

    def _how_many(self, way: str) -> int:
        return {"transaction": 2, "many": self._chance.randint(3, 6)}.get(way, 1)

    def _start(self, call: Call, workflow: str, given: dict[str, Program], is_many: bool) -> Started:
        started = start_runs(workflow, given, is_many)
        call.runs = {tag: str(handle.id) for tag, handle in started.items()}
        return started

    def _in_transaction(
        self, call: Call, workflow: str, given: dict[str, Program], is_many: bool, is_undone: bool
    ) -> Started:
        from django.db import Error, connection, transaction

        # An error before the block's end means that no COMMIT was ever sent.
        moment, started = "refused", Started()
        try:
            with transaction.atomic():
                started = self._start(call, workflow, given, is_many)
                if is_undone:
                    raise RolledBack
                moment = "unknown"
            call.came_out("ok")
        except RolledBack:
            call.came_out("refused")
            return {}
        except Error as error:
            call.came_out(moment, error)
            connection.close()
            return started if moment == "unknown" else {}
        return started

    def _plainly(self, call: Call, start: Callable[[], Started]) -> Started:
        from django.db import Error, connection

        try:
            started = start()
        except Error as error:
            call.came_out("unknown", error)
            connection.close()
            return {}
        call.came_out("ok")
        return started

    # --- keys ----------------------------------------------------------------------------------

    def _start_keyed(self, workflow: str, given: dict[str, Program]) -> None:
        """Twice with one key, the second time side by side with the first one or after it; each until it is told."""
        [(tag, program)] = given.items()
        call = partial(self._with_key, workflow, tag, program, self._chance.random())
        self._later.add(0.0, call)
        self._later.add(self._chance.choice((0.0, 0.0, self._chance.uniform(0, LATE_MOST))), call)

    def _with_key(self, workflow: str, tag: str, program: Program, chance: float) -> bool:
        call = Call("enqueue", [tag], key=tag)
        started = self._plainly(call, lambda: self._by_key(call, workflow, tag, program))
        if started:
            # Of two that are told of the run each may send its events: the key of an event sends it once.
            self._follow({tag: program}, started, random.Random(f"{tag} {chance}"))
        return bool(started)

    def _by_key(self, call: Call, workflow: str, tag: str, program: Program) -> Started:
        handle = workflow_called(workflow).using(idempotency_key=tag).enqueue(tag, program)
        call.runs = {tag: str(handle.id)}
        return {tag: handle}

    # --- what follows --------------------------------------------------------------------------

    def _follow(self, given: dict[str, Program], started: Started, chance: random.Random | None = None) -> None:
        chance = chance or self._chance
        for tag, handle in started.items():
            gives_up = time.monotonic() + UNKNOWN_SECONDS
            for event in events_of(given[tag]):
                for _ in range(2 if chance.random() < CHANCE_OF_TWICE else 1):
                    send = partial(self._send, tag, handle, event, gives_up)
                    self._later.add(chance.uniform(0, LATE_MOST), send)
            if has_children(given[tag]) and chance.random() < CHANCE_OF_CANCEL_WITH_CHILDREN:
                waits_until = time.monotonic() + CHILDREN_MOST
                self._later.add(LATE_MOST, partial(self._cancel_with_children, tag, handle, waits_until))
            elif chance.random() < CHANCE_OF_CANCEL:
                self._later.add(chance.uniform(0, LATE_MOST), partial(self._cancel, tag, handle))

    def _send(self, tag: str, handle: Any, event: str, gives_up: float) -> bool:
        from django_durable.exceptions import IllegalTransition, RunNotFound

        call = Call("event", runs={tag: str(handle.id)}, key=event)
        try:
            return self._settled(call, lambda: handle.send_event(event, payload_of(event), event))
        except IllegalTransition as error:
            call.came_out("refused", error)
            return True
        except RunNotFound as error:
            call.came_out("refused", error)
            return time.monotonic() > gives_up

    def _cancel(self, tag: str, handle: Any) -> bool:
        from django_durable.exceptions import RunLocked

        call = Call("cancel", runs={tag: str(handle.id)})
        try:
            return self._settled(call, handle.cancel)
        except RunLocked as error:
            call.came_out("unknown", error)
            return False

    def _cancel_with_children(self, tag: str, handle: Any, waits_until: float) -> bool:
        from django.db import Error, connection

        try:
            live = live_of_family(handle)
        except Error:
            connection.close()
            live = {handle.id}
        if handle.id not in live:
            return True
        if len(live) > 1 or time.monotonic() > waits_until:
            return self._cancel(tag, handle)
        self._later.add(LOOK_AGAIN, partial(self._cancel_with_children, tag, handle, waits_until))
        return True

    def _settled(self, call: Call, verb: Callable[[], object]) -> bool:
        from django.db import Error, connection

        try:
            verb()
        except (Error, *STUMBLES) as error:
            call.came_out("unknown", error)
            connection.close()
            return False
        call.came_out("ok")
        return True


def live_of_family(handle: Any) -> set[UUID]:
    """Of the run and its children those that are not over. One that is not stored yet, as far as we know, may come."""
    from django.db.models import Q

    from django_durable.models import Run

    family = Run.objects.filter(Q(pk=handle.id) | Q(parent_id=handle.id)).values_list("pk", "status")
    found = dict(family)
    live = {run_id for run_id, status in found.items() if status not in TERMINAL}
    return live if handle.id in found else {handle.id}


# --- the process -----------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    later = Later(AGAIN)
    senders = [in_thread(later.work) for _ in range(SENDERS)]
    mixture = MIXTURES[options.mixture]
    clients = [Client(f"{options.seed}-{number}", later, mixture) for number in range(STARTERS)]
    starters = [in_thread(partial(keep_starting, one, options.rate / STARTERS, options.stop)) for one in clients]
    for thread in starters:
        thread.join()
    later.close()
    for thread in senders:
        thread.join()
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", required=True)
    parser.add_argument("--rate", type=float, required=True, help="runs a second")
    parser.add_argument("--mixture", choices=list(MIXTURES), default="newest", help="which runs (default newest)")
    parser.add_argument("--stop", type=Path, required=True, help="start nothing more once this file is there")
    return parser.parse_args(arguments)


def in_thread(call: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=call)
    thread.start()
    return thread


def keep_starting(client: Client, rate: float, stop: Path) -> None:
    """So many runs a second; what an outage took of that is made up for as far as it goes."""
    due = time.monotonic()
    while not stop.exists():
        due = max(due, time.monotonic() - BEHIND_MOST)
        if (early := due - time.monotonic()) > 0:
            time.sleep(min(early, 0.1))
            continue
        due += client.start_some() / rate


if __name__ == "__main__":
    sys.exit(main())
