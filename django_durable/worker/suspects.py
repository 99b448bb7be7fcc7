"""The claimer of an isolated process: one suspect at a time, and nothing else."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..conf import durable_settings
from ..core import clock
from ..store.claiming import claim_suspect
from ..store.limiting import claim_limited
from ..store.workers import count_suspects
from .claimer import Claimer

LOOK_SECONDS = 0.1
"""How often it is asked whether the suspect that is worked on is none any more, and how soon a new one is found by a
process that is idle: of many that died with their process each waits for those before it."""


class SuspectClaimer(Claimer):
    """What is under suspicion is worked on alone, until it has journaled something new.

    Then it may still have long to go, and goes on among the others where another suspect waits for this process: one
    death makes a suspect of each run that the process worked on. Not so in a worker that is to end by itself
    (``makes_room``): those others may have ended before.
    """

    def __init__(self, *args: Any, makes_room: bool = True, **options: Any) -> None:
        super().__init__(*args, **options)
        self._makes_room = makes_room

    def _wait_for_room(self) -> int:
        free = self._slots.wait_for_room(LOOK_SECONDS)
        if free <= 0:
            self._make_room()
        return free

    def _make_room(self) -> None:
        if not self._makes_room or clock.monotonic() < self._next_look:
            return
        if any(lease.is_suspect for lease in self._slots.leases()):
            return
        self._next_look = clock.monotonic() + durable_settings().POLL_SECONDS
        if self._has_waiting():
            self._slots.ask_to_release()

    def _claim(self, free: int) -> int:
        # They take turns in being first: no backlog of the one kind lets the other wait for ever.
        self._limited_first = not self._limited_first
        first, second = self._take_suspect, self._take_limited_suspect
        if self._limited_first:
            first, second = second, first
        count = (first() or second()) if self._has_waiting() else 0
        if count:
            self._next_look = 0.0
        else:
            self._note_idle()
            self._stop.wait(LOOK_SECONDS)
        return count

    def _has_waiting(self) -> bool:
        return count_suspects(self._db, self._who.queues, self._who.workflows, 1) > 0

    def _take_suspect(self) -> int:
        lease = durable_settings().LEASE_SECONDS
        return len(self._take(partial(claim_suspect, self._db, self._who, lease=lease, time=self._time)))

    def _take_limited_suspect(self) -> int:
        lease = durable_settings().LEASE_SECONDS
        claim = partial(claim_limited, self._db, self._who, 1, self._keys, suspect=True, lease=lease, time=self._time)
        return len(self._take(claim))
