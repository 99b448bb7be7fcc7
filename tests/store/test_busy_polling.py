"""Staying awake for an answer: while that pays, and no longer."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator

import pytest

from django_durable.store import busy_polling
from django_durable.store.busy_polling import (
    AT_ONCE,
    DISTURBED,
    LONGEST,
    READING,
    RESTS,
    BusyPolling,
    Exchange,
    Unanswered,
)

WRITING = 2


class Peer:
    """A server that answers when the test says so, on a clock that the test moves."""

    def __init__(self) -> None:
        self.here, self.there = socket.socketpair()
        self.now = 100.0
        self.looks = 0
        self.turns: list[Callable[[], None]] = []
        """What happens between one look and the next."""

    def exchange(self) -> Exchange[bytes]:
        assert (yield READING) == READING
        return self.here.recv(100)

    def answer(self) -> None:
        self.there.send(b"answer")

    def passes(self, seconds: float) -> Callable[[], None]:
        def wait() -> None:
            self.now += seconds

        return wait

    def give_way(self) -> None:
        self.looks += 1
        (self.turns.pop(0) if self.turns else self.passes(LONGEST / 5))()


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Peer]:
    peer = Peer()
    monkeypatch.setattr(busy_polling, "perf_counter", lambda: peer.now)
    monkeypatch.setattr(os, "sched_yield", peer.give_way)
    yield peer
    peer.here.close()
    peer.there.close()


def slept(exchange: Exchange[bytes], *comes: Callable[[], None]) -> int:
    """Drive it to its answer: how often its driver had to wait, each time until what ``comes`` then."""
    given, waits = None, 0
    events = list(comes)
    while True:
        try:
            exchange.send(given) if given is not None else next(exchange)
        except StopIteration as end:
            assert end.value == b"answer"
            return waits
        waits += 1
        events.pop(0)()
        given = READING


def test_an_answer_that_comes_soon_is_seen_awake(peer: Peer) -> None:
    peer.turns = [peer.passes(LONGEST / 10), peer.answer]
    assert slept(BusyPolling().awake(peer.exchange(), peer.here.fileno())) == 0
    assert peer.looks == 2


def test_what_takes_long_is_slept_for(peer: Peer) -> None:
    assert slept(BusyPolling().awake(peer.exchange(), peer.here.fileno()), peer.answer) == 1
    assert 0 < peer.looks < 10


def test_after_two_answers_that_took_long_the_next_is_slept_for_until_one_comes_soon(peer: Peer) -> None:
    polling = BusyPolling()

    def late() -> None:
        peer.now += 2 * LONGEST
        peer.answer()

    looked = []
    for comes in (late, late, peer.answer, peer.answer):
        peer.looks = 0
        slept(polling.awake(peer.exchange(), peer.here.fileno()), comes)
        looked.append(peer.looks > 0)
    assert looked == [True, True, False, True]


def test_who_must_not_sleep_has_the_answer_that_comes_soon(peer: Peer) -> None:
    peer.turns = [peer.passes(AT_ONCE / 10), peer.answer]
    assert BusyPolling().answer_at_once(peer.exchange(), peer.here.fileno()) == b"answer"


def test_and_is_kept_no_longer_than_that_where_it_does_not(peer: Peer) -> None:
    """Whoever may sleep has it from the rest of the exchange. After two of them none is promising, until one is."""
    polling, promising = BusyPolling(), []
    polling.is_wanted = True
    for _ in range(2):
        promising.append(polling.is_promising)
        began = peer.now
        with pytest.raises(Unanswered) as out:
            polling.answer_at_once(peer.exchange(), peer.here.fileno())
        assert AT_ONCE < peer.now - began <= AT_ONCE + LONGEST / 5
        assert slept(out.value.rest, peer.answer) == 1
    promising.append(polling.is_promising)
    slept(polling.awake(peer.exchange(), peer.here.fileno()), peer.answer)
    promising.append(polling.is_promising)
    assert promising == [True, True, False, True]


def test_where_others_need_the_processor_it_rests(peer: Peer) -> None:
    polling = BusyPolling()

    def disturbed() -> None:
        peer.now += 2 * DISTURBED
        peer.answer()

    peer.turns = [disturbed]
    assert slept(polling.awake(peer.exchange(), peer.here.fileno())) == 0
    # Asleep, and so fast that polling would pay.
    assert slept(polling.awake(peer.exchange(), peer.here.fileno()), peer.answer) == 1
    peer.looks = 0
    assert slept(polling.awake(peer.exchange(), peer.here.fileno()), peer.answer) == 1
    assert peer.looks == 0
    peer.now += (RESTS + 1) * 2 * DISTURBED
    peer.turns = [peer.answer]
    assert slept(polling.awake(peer.exchange(), peer.here.fileno())) == 0


def test_the_server_that_is_gone_is_seen_too(peer: Peer) -> None:
    peer.turns = [peer.there.close]
    polled = BusyPolling().awake(peer.exchange(), peer.here.fileno())
    with pytest.raises(StopIteration) as end:
        next(polled)
    assert end.value.value == b""


def test_what_goes_wrong_is_raised(peer: Peer) -> None:
    def exchange() -> Exchange[bytes]:
        yield READING
        raise ConnectionResetError

    peer.answer()
    with pytest.raises(ConnectionResetError):
        next(BusyPolling().awake(exchange(), peer.here.fileno()))


def test_who_waits_to_write_is_left_to_sleep(peer: Peer) -> None:
    def exchange() -> Exchange[bytes]:
        assert (yield READING | WRITING) == WRITING
        return b"written"

    polled = BusyPolling().awake(exchange(), peer.here.fileno())
    assert next(polled) == READING | WRITING
    assert peer.looks == 0
    with pytest.raises(StopIteration) as end:
        polled.send(WRITING)
    assert end.value.value == b"written"


def test_it_looks_at_the_connection_that_there_is_now(peer: Peer) -> None:
    polling = BusyPolling()
    peer.answer()
    assert slept(polling.awake(peer.exchange(), peer.here.fileno())) == 0
    peer.here.close()
    peer.there.close()
    peer.here, peer.there = socket.socketpair()
    kept = os.dup(peer.here.fileno())
    try:
        peer.answer()
        peer.looks = 0
        assert slept(polling.awake(peer.exchange(), kept)) == 0
    finally:
        os.close(kept)


def test_where_the_machine_has_no_such_thing_it_sleeps(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(busy_polling, "IS_POSSIBLE", False)
    assert slept(BusyPolling().awake(peer.exchange(), peer.here.fileno()), peer.answer) == 1
    assert peer.looks == 0
