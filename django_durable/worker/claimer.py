"""Claim, post to a pool, and know how long to wait."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from uuid import UUID

from django.db.utils import Error

from ..conf import durable_settings
from ..core import clock
from ..core.clock import DatabaseClock
from ..core.flow.lease import Lease
from ..core.payloads.surviving import survive, warn
from ..queues.base import Queue
from ..store.claiming import (
    Claim,
    Claimant,
    JournalsUnread,
    claim_ids,
    claim_next,
    claim_oldest,
    hand_back,
    look_ahead,
    seconds_to_next_due,
)
from ..store.database import PrivateDatabase
from ..store.holding import NOTHING, Held, narrowed
from ..store.limiting import KeyWalk, claim_hinted, claim_limited, hint, seconds_to_opening
from ..store.workers import startable
from .loops.promote import Promote
from .slots import Slots

logger = logging.getLogger("django_durable.worker")

HELD_SECONDS = 0.02
"""How long after a claim that skipped a held row the id is tried once more; after that the sweep finds the run."""
GATHER_SECONDS = 0.002
"""How long a busy claimer waits for half of its slots to come free together: claims are cheaper by the batch. To wait
for a quarter of them made two per cent fewer steps a second."""
GATHERED = 8
"""Who has fewer slots does not wait: one of them that is free would be idle for longer than its claim takes."""
AT_ONCE = 100
"""Runs in one claim, so that those of the first begin while the database works on the next. Of 200 coroutines that were
given 200 runs of ten steps: 1.06 times as many steps a second as with one claim for all, 1.05 times as many as with 50
at once."""
IN_A_ROUND = 2 * AT_ONCE
"""Runs in one round. Their ids are asked for before the first of them begin, who would keep the interpreter from us for
longer than their claim took; and not those of more, which idle workers could claim meanwhile."""
SHORTEST_PACE, LONGEST_PACE = 0.001, 0.01
"""Seconds from one claim to the next at least, where there is no backlog. One producer and two workers did 980 runs a
second with the shortest pace, 1,430 with the longest; runs that come one at a time do not wait for the longest."""
SHORTEST_LOOK = 0.1
"""Seconds to the next look where the rate of a key opens before that: of many keys there is always one."""
UNLIMITED_SECONDS = 60.0
"""How often code without a limit asks for runs that were started when it had one."""
STOP_SECONDS = 10.0
"""How long a process that drains waits for a claim that is under way before it looks after the runs that it has."""
SWEPT_PART = 8
"""One in so many of the slots that a claim may fill goes to the oldest runs when a sweep is due and the lists are
long."""


class Claimer:
    """Never claims more than there are free slots: what is claimed starts at once."""

    def __init__(
        self,
        db: PrivateDatabase,
        queue: Queue,
        who: Claimant,
        slots: Slots,
        limit: int,
        start: Callable[[Sequence[Claim]], None],
        *,
        longest_wait: float = 60.0,
    ) -> None:
        self._db = db
        self._queue = queue
        self._all = self._who = who
        self.held = NOTHING
        self._slots = slots
        self._limit = limit
        self._start = start
        self._longest_wait = longest_wait
        self._time = DatabaseClock()
        self._next_look = 0.0
        self._claimed_at = -inf
        self._pace = SHORTEST_PACE
        self._again: list[UUID] = []
        """Hinted ids that were not to be had: most are somebody else's by now, but a row may merely have been held."""
        self._swept = 0
        """How many runs the last sweep, and looks since, took from under the list; 0: none, or the backlog is over."""
        self._promote = Promote(db, queue)
        self._keys = KeyWalk()
        self._limited_first = False
        self._next_without_limit = 0.0
        self._unstarted: list[Lease] = []
        """Claims that are to be handed back."""
        self._unclaimed: list[UUID] = []
        """Ids that are out of their lists and may not have been claimed: to be told to others once we are stopped."""
        self._stop = threading.Event()
        self._is_asked = False
        """Whether another thread wants a look. Its own note, since a look that is under way plans the next one."""
        self._mutex = threading.Lock()
        self.is_idle = threading.Event()
        """Set when the last look at the database found nothing to claim."""
        self._thread = threading.Thread(target=self._run, name="durable-claimer", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Claim nothing from now on; returns when the last claim has been handed over, as a rule (``has_ended``)."""
        self._stop.set()
        self._queue.close()
        self._thread.join(STOP_SECONDS)

    def has_ended(self, timeout: float) -> bool:
        """Whether, ``timeout`` seconds from now at the latest, no claim is under way nor still to be handed back. Else
        one may be committed yet that nobody works on."""
        self._thread.join(timeout)
        return not self._thread.is_alive() and not self._unstarted

    def look_again(self) -> None:
        """Look at the database with the next tick; ``is_idle`` is set once nothing was found."""
        with self._mutex:
            self._is_asked = True
            self.is_idle.clear()

    def heed(self, held: Held) -> None:
        """From the next statement on claim nothing of what is held. For what is held no more: look at once."""
        if held == self.held:
            return
        is_more = held.queues >= self.held.queues and held.workflows >= self.held.workflows
        self.held, self._who = held, narrowed(self._all, held)
        if not is_more:
            self.look_again()

    def _run(self) -> None:
        pause = 0.1
        while not self._stop.is_set():
            try:
                self.tick()
                pause = 0.1
            except (Error, JournalsUnread) as error:
                warn(logger, "the database refused a claim, trying again: %s", error.__cause__ or error)
                self._db.close()
                # Ids that were popped, and runs that are handed back, are in no list any more.
                self._next_look = 0.0
                self._stop.wait(pause * random.uniform(0.5, 1.5))
                pause = min(pause * 2, 5.0)
            except BaseException as error:
                survive(error, logger, "the claimer stumbled")
                self._next_look = 0.0
                self._stop.wait(1.0)
        for last in (self._hand_back, self._tell_others):
            with suppress(Error):
                last()

    def tick(self) -> int:
        """One look for work; how many runs were claimed."""
        self._hand_back()
        free = self._wait_for_room()
        if free <= 0:
            return 0
        self._keep_pace()
        if self._is_asked:
            self._is_asked = False
            self._next_look = 0.0
        count = self._claim(free)
        self._set_pace(count, free)
        return count

    def _wait_for_room(self) -> int:
        free = self._slots.wait_for_room(durable_settings().POLL_SECONDS)
        if free <= 0:
            self._pass_on()
        enough = min(self._limit // 2, AT_ONCE)
        if self._limit >= GATHERED and 0 < free < enough:
            free = self._slots.wait_for_room(GATHER_SECONDS, enough)
        return min(free, IN_A_ROUND)

    def _pass_on(self) -> None:
        """Full for as long as a poll: what we alone have heard of, and would claim now, is for whoever is idle."""
        if self._queue.gives_hints:
            self._promote.tick()

    def _set_pace(self, count: int, free: int) -> None:
        """Where runs come one by one, and quickly, they are claimed by the batch: each claim is a commit."""
        if count >= free:
            # A backlog: it comes in batches.
            self._pace = 0.0
        else:
            # Halved, not reset: of two workers that share a stream one now and then finds a single run.
            pace = 2 * self._pace if count > 1 else self._pace / 2
            self._pace = min(max(pace, SHORTEST_PACE), LONGEST_PACE)

    def _keep_pace(self) -> None:
        early = self._claimed_at + self._pace - clock.monotonic()
        # Who has one slot claims one run, however long he waits.
        if early > 0 and self._limit > 1:
            self._stop.wait(early)

    def _claim(self, free: int) -> int:
        """Each statement's claims are started before the next one: what is claimed must not hang on what follows."""
        looks = clock.monotonic() >= self._next_look
        count = self._sweep(free) if looks and self._is_behind(free) else 0
        if count == free:
            return count
        looks = clock.monotonic() >= self._next_look
        # Behind a dry list there may be runs that the sweep put off: it is not waited for what else comes into it.
        waits = not looks and not self._swept
        wait = min(max(0.0, self._next_look - clock.monotonic()), self._longest_wait) if waits else 0.0
        again, self._again = self._again[: free - count - 1], []
        ids, asked = self._ids_of_a_round(again, free - count, wait)
        free = count + asked
        self._unclaimed = ids
        claims = self._take_ids(ids, claim_ids)
        if self._stop.is_set():
            return count + len(claims)
        # As a rule all have become claims, and to compare ids is half of what the rest of this costs.
        left = [] if len(claims) == len(ids) else _not_among(ids, claims)
        if left and self._who.limits:
            # Of these, or the first ones of their lines.
            claims += self._take_ids(left, claim_hinted)
            left = _not_among(left, claims)
        self._again, self._unclaimed = list(set(left) - set(again)), []
        count += len(claims)
        # An id that cannot be claimed may be one that comes due soon: the database knows when. In a backlog it is
        # rather one that the sweep was faster with, and a look would take the next ids from under the list.
        looks |= len(ids) - len(claims) > self._swept or not (ids or self._queue.gives_hints)
        is_dry = len(ids) < asked
        if self._swept and is_dry:
            # The backlog is over: look as if the sweep had not put it off.
            looks, self._swept = True, 0
        if count < free and looks:
            found = self._look(free - count)
            count += found
            if not count:
                self._note_idle()
            elif count == free and is_dry:
                # More than there was room for: the next look is not where the one before had put it.
                self._next_look = 0.0
            elif count == free:
                # It took what the list has next. Each id that is stale for that would be the reason of another look.
                self._swept += found
        return count

    def _ids_of_a_round(self, again: list[UUID], room: int, wait: float) -> tuple[list[UUID], int]:
        """Those that are tried ``again`` and those that the queue tells of; and for how many there is room by then."""
        ids = again + self._hints(room - len(again), min(wait, HELD_SECONDS) if again else wait)
        if wait and len(ids) >= AT_ONCE and not self._stop.is_set():
            # While that waited runs have ended.
            room = max(room, min(self._slots.wait_for_room(0.0), IN_A_ROUND))
            ids += self._hints(room - len(ids), 0.0)
        return ids, room

    def _hints(self, limit: int, wait: float) -> list[UUID]:
        """Up to ``limit`` ids, in trips of as many as are claimed at once: other workers have theirs in between."""
        ids: list[UUID] = []
        while len(ids) < limit and len(ids) % AT_ONCE == 0 and not (ids and self._stop.is_set()):
            found = self._queue.pop(self._who.queues, min(limit - len(ids), AT_ONCE), 0.0 if ids else wait)
            if not found:
                break
            ids += found
        return ids

    def _note_idle(self) -> None:
        with self._mutex:
            if not self._is_asked:
                self.is_idle.set()

    def _is_behind(self, free: int) -> bool:
        """Whether the lists alone can fill the slots: no look at the database would ever come after them."""
        return self._queue.gives_hints and sum(map(self._queue.length, self._who.queues)) >= free

    def _sweep(self, free: int) -> int:
        """A few of the oldest before the lists' turn: this bounds what a lost id costs while there is a backlog."""
        settings, few = durable_settings(), max(1, free // SWEPT_PART)
        lease = settings.LEASE_SECONDS
        claims = self._take(lambda: claim_oldest(self._db, self._who, few, lease=lease, time=self._time))
        self._swept = len(claims)
        if self._who.limits and free > self._swept:
            self._swept += self._take_limited(min(few, free - self._swept))
        if self._swept:
            self._next_look = clock.monotonic() + settings.REAP_SECONDS * random.uniform(0.9, 1.1)
        return self._swept

    def _look(self, room: int) -> int:
        """Ask the database itself: the only source of the database queue, the sweep for ids that Redis lost."""
        if self.is_idle.is_set():
            # The last look found nothing: one statement says whether this one would, and when to come again.
            ahead = look_ahead(self._db, self._who)
            if ahead.is_empty:
                self._next_look = clock.monotonic() + self._seconds_to_rest(ahead.due_in)
                return 0
        count = self._take_both(room) if self._who.limits else self._take_next(room)
        if not self._who.limits and count < room and clock.monotonic() >= self._next_without_limit:
            # Code without a limit asks now and then: what was started under one of before must not wait for ever.
            count += self._take_limited(room - count)
        if count < room:
            self._next_look = clock.monotonic() + self._seconds_to_look()
        return count

    def _take_both(self, room: int) -> int:
        """Runs with and without a limit take turns in being first, with half of the room: no backlog starves others."""
        self._limited_first = not self._limited_first
        first, second = self._take_next, self._take_limited
        if self._limited_first:
            first, second = second, first
        half = (room + 1) // 2
        count = taken = first(half)
        if count < room:
            count += second(room - count)
        if taken == half and count < room:
            count += first(room - count)
        return count

    def _take_ids(self, ids: Sequence[UUID], claim: Callable[..., list[Claim]]) -> list[Claim]:
        """Those of ``ids`` that are to be had, AT_ONCE at a time, until we are stopped."""
        lease = durable_settings().LEASE_SECONDS
        claims: list[Claim] = []
        for first in range(0, len(ids), AT_ONCE):
            if self._stop.is_set():
                break
            some = ids[first : first + AT_ONCE]
            claims += self._take(partial(claim, self._db, self._who, some, lease=lease, time=self._time))
        return claims

    def _take_next(self, room: int) -> int:
        lease = durable_settings().LEASE_SECONDS
        return self._take_all(room, lambda most: claim_next(self._db, self._who, most, lease=lease, time=self._time))

    def _take_limited(self, room: int) -> int:
        lease = durable_settings().LEASE_SECONDS
        count = self._take_all(
            room, lambda most: claim_limited(self._db, self._who, most, self._keys, lease=lease, time=self._time)
        )
        if not count:
            self._next_without_limit = clock.monotonic() + UNLIMITED_SECONDS
        return count

    def _take_all(self, room: int, claim: Callable[[int], list[Claim]]) -> int:
        """Up to ``room`` runs, AT_ONCE at a time: how many there were."""
        count = 0
        while count < room and not self._stop.is_set():
            asked = min(room - count, AT_ONCE)
            found = len(self._take(partial(claim, asked)))
            count += found
            if found < asked:
                break
        return count

    def _take(self, claim: Callable[[], list[Claim]]) -> list[Claim]:
        """Claim and start: between the two nothing may fail, since a claim is committed."""
        try:
            claims = claim()
        except JournalsUnread as error:
            self._unstarted += error.leases
            raise
        if claims:
            self._claimed_at = clock.monotonic()
            self.is_idle.clear()
            is_late = self._stop.is_set()
            for one in claims:
                # The database was late with it: whoever asks the others to end has done so.
                one.lease.release_requested = is_late
            self._slots.take(*claims)
            self._start(claims)
        return claims

    def _hand_back(self) -> None:
        """What was claimed and could not be started: without us it would wait for its lease to lapse."""
        if self._unstarted:
            hand_back(self._db, self._unstarted)
            self._unstarted = []

    def _tell_others(self) -> None:
        """Of what we alone have heard of: else they would come to it with the next sweep."""
        if ids := {*self._unclaimed, *self._again}:
            # First of all, as they were.
            runs = [run._replace(is_under_way=True) for run in startable(self._db, ids)]
            hint(self._db, self._queue, runs, self._who.limits)
            self._queue.close()

    def _seconds_to_look(self) -> float:
        """Until the next look: as a rule, or when the rate of a key opens before that."""
        due_in = seconds_to_next_due(self._db, self._who) if self._queue.gives_hints else None
        rest, opening = self._seconds_to_rest(due_in), seconds_to_opening(self._db, self._keys.seen, self._who.limits)
        return rest if opening is None else min(rest, max(opening, SHORTEST_LOOK))

    def _seconds_to_rest(self, due_in: float | None) -> float:
        """The poll, or with hints the sweep, or when the next run comes due before that.

        Whoever lets a run wait for less than a sweep says so through the queue; a timer is never longer than one.
        """
        settings = durable_settings()
        if not self._queue.gives_hints:
            # Never longer: that is how late a run may start. As a rule a short one is over within it, too.
            return settings.POLL_SECONDS * random.uniform(0.9, 1.0)
        # Never longer, as nobody hears of what comes due later than that (``starting.is_soon``).
        sweep = settings.REAP_SECONDS * random.uniform(0.9, 1.0)
        return sweep if due_in is None else min(sweep, max(due_in, HELD_SECONDS))


def _not_among(ids: Sequence[UUID], claims: Sequence[Claim]) -> list[UUID]:
    """The ``ids``, each once, that have not become claims."""
    return list(set(ids) - {claim.run_id for claim in claims})
