"""Staying awake for an answer that is about to come: in the commits of a run that is alone."""

from __future__ import annotations

import os
import select
from collections.abc import Generator
from time import perf_counter
from typing import Any, TypeVar

T = TypeVar("T")
Exchange = Generator[int, int, T]
"""What is said to a server and heard from it, as psycopg writes that: yields what it waits for on its socket, is sent
what has come."""

READING = 1
"""What is waited for, and what has come, where that is something to read (``psycopg.waiting``)."""
LONGEST = 0.00035
"""Seconds of an exchange. To be woken takes a processor that has gone to sleep a twentieth to a tenth of a millisecond:
little of an answer that takes longer. Where a commit took 0.4 ms, polling for up to 1 ms took 2.3 times the CPU of
sleeping and a step 0.96 of the time; for up to 0.3 and 0.4 ms, 1.1 and 1.4 times the CPU, and no less time."""
AT_ONCE = 0.0005
"""The same of an event loop, which does nothing else meanwhile: two threads have to be woken for what it does not stay
awake for. With 0.35 ms, where a commit took 0.2, a step took 1.08 times as long."""
TOO_MANY = 2
"""Late answers in a row after which the next are slept for, until one comes in time: asleep it may well be late by the
waking alone. Where a commit took 0.2 ms one of ten was late; with one of them as too many a third of all steps were
slept for."""
DISTURBED = 0.002
"""Seconds without this thread: others need the processor or the interpreter, or the container has used up its share."""
RESTS = 25
"""So many times as long it then sleeps as it waits: if that was by its own fault it loses a twenty-fifth by it."""
IS_POSSIBLE = hasattr(select, "poll") and hasattr(os, "sched_yield")


class Unanswered(Exception):
    """The answer is out. ``rest``: the exchange from here on, for whoever may sleep until it comes."""

    def __init__(self, rest: Exchange[Any]) -> None:
        super().__init__()
        self.rest = rest


class BusyPolling:
    """Of one connection, which is used by one thread at a time.

    A processor with nothing to do goes to sleep, and in a virtual machine that wakes it late: of two cores, on which a
    commit took 0.2 ms, a run of 300 steps took 0.79 of the time with it, and the worker 1.9 times the CPU. It gives way
    to whoever else wants the processor; without that three runs at a time, each in a process of its own, took 1.4 times
    as long, with it 0.96.

    Its time is none that tests move: a clock that stands still would have it look for ever.
    """

    def __init__(self) -> None:
        self.is_wanted = False
        self._late = 0
        """How many exchanges for which it was wanted were not over in time, one after the other."""
        self._rests_until = 0.0
        self._socket = -1
        self._poll: Any = None

    @property
    def is_promising(self) -> bool:
        """Whether somebody wants it, and the answer may be expected soon."""
        return self.is_wanted and self._may_come_soon(perf_counter())

    def answer_at_once(self, exchange: Exchange[T], socket: int) -> T:
        """What ``exchange`` comes to, without a moment's sleep. Raises Unanswered where it takes too long for that."""
        began = perf_counter()
        try:
            wanted = next(exchange)
            while wanted == READING and self._comes(socket, began, AT_ONCE):
                wanted = exchange.send(READING)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        finally:
            self._note(perf_counter() - began, AT_ONCE)
        raise Unanswered(_rest_of(exchange, wanted))

    def awake(self, exchange: Exchange[T], socket: int) -> Exchange[T]:
        """``exchange`` over ``socket``, where whoever drives this sleeps no longer than has to be."""
        began = perf_counter()
        try:
            wanted = next(exchange)
            if wanted == READING and self._may_come_soon(began) and self._comes(socket, began, LONGEST):
                wanted = exchange.send(READING)
            return (yield from _rest_of(exchange, wanted))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        finally:
            self._note(perf_counter() - began, LONGEST)

    def _may_come_soon(self, now: float) -> bool:
        return self._late < TOO_MANY and now >= self._rests_until

    def _note(self, seconds: float, longest: float) -> None:
        self._late = 0 if seconds <= longest else self._late + 1

    def _comes(self, socket: int, began: float, longest: float) -> bool:
        """Whether there is something to read, before the exchange has taken too long."""
        if not IS_POSSIBLE:
            return False
        if socket != self._socket:
            self._poll = select.poll()
            self._poll.register(socket, select.POLLIN)
            self._socket = socket
        looked = perf_counter()
        while True:
            is_there = bool(self._poll.poll(0))
            now = perf_counter()
            if (away := now - looked) > DISTURBED:
                self._rests_until = now + RESTS * away
            if is_there or now - began > longest or now < self._rests_until:
                return is_there
            looked = now
            os.sched_yield()


def _rest_of(exchange: Exchange[T], wanted: int) -> Exchange[T]:
    """``exchange``, which has yielded ``wanted`` and was sent nothing yet."""
    try:
        while True:
            wanted = exchange.send((yield wanted))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
