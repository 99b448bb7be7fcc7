"""What the proxy does to connections, seen from both of its ends."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from tests.chaos.echoing import LONG, is_over, read
from tests.chaos.proxy import Proxy
from tests.processes import wait_until

SHORT = 0.5


def test_large_data_come_whole(client: socket.socket) -> None:
    data = bytes(range(256)) * 4096
    threading.Thread(target=client.sendall, args=(data,), daemon=True).start()
    assert read(client, len(data)) == data


def test_a_cut_ends_every_connection_and_no_later_one(proxy: Proxy, client: socket.socket) -> None:
    assert proxy.cut() == 1
    assert is_over(client)
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=LONG) as other:
        other.sendall(b"again")
        assert read(other, 5) == b"again"


def test_what_is_frozen_comes_when_it_thaws(proxy: Proxy, client: socket.socket) -> None:
    proxy.freeze()
    client.sendall(b"later")
    client.settimeout(SHORT)
    with pytest.raises(TimeoutError):
        client.recv(1)
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=SHORT) as other:
        other.sendall(b"new")
        with pytest.raises(TimeoutError):
            other.recv(1)
        proxy.thaw()
        client.settimeout(LONG)
        other.settimeout(LONG)
        assert (read(client, 5), read(other, 3)) == (b"later", b"new")


def test_what_is_delayed_comes_later_and_in_its_order(
    proxy: Proxy, client: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = proxy._loop.time()
    monkeypatch.setattr(proxy._loop, "time", lambda: now)

    def let_pass(seconds: float) -> None:
        nonlocal now
        now += seconds
        # The first one wakes the loop, and before the second one it has done what is due.
        for _ in range(2):
            proxy.delay(0.0)

    proxy.delay(LONG)
    for number in range(50):
        client.sendall(b"%02d" % number)
    wait_until(lambda: proxy.held_back == 100, message="all of it to be held back")
    proxy.delay(0.0)
    client.sendall(b"--")
    wait_until(lambda: proxy.held_back == 102, message="what comes after it to be held back")
    let_pass(LONG - 1)
    assert proxy.held_back == 102
    let_pass(2)
    assert read(client, 102) == b"".join(b"%02d" % number for number in range(50)) + b"--"


def test_a_delay_tells_afterwards_how_much_it_held_up(proxy: Proxy, client: socket.socket) -> None:
    assert proxy.delay(0.01) == 0
    client.sendall(b"12345")
    assert read(client, 5) == b"12345"
    # There and back.
    assert proxy.delay(0.02) == 10
    assert proxy.is_slow
    assert proxy.delay(0.0) == 0
    assert not proxy.is_slow
    client.sendall(b"67890")
    assert read(client, 5) == b"67890"
    assert proxy.delay(0.0) == 0


def test_the_answer_that_comes_to_so_many_bytes_is_cut_off(proxy: Proxy, client: socket.socket) -> None:
    cuts: list[str] = []
    proxy.cut_after(6, lambda: cuts.append("first"))
    client.sendall(b"12345")
    assert read(client, 5) == b"12345"
    assert cuts == []
    client.sendall(b"67890")
    assert is_over(client)
    assert cuts == ["first"]


def test_a_cut_to_come_gives_way_to_another_one(proxy: Proxy, client: socket.socket) -> None:
    cuts: list[str] = []
    proxy.cut_after(1, lambda: cuts.append("first"))
    proxy.cut_after(6, lambda: cuts.append("second"))
    client.sendall(b"12345")
    assert read(client, 5) == b"12345"
    client.sendall(b"67890")
    assert is_over(client)
    assert cuts == ["second"]


def test_nobody_behind_it_is_a_connection_that_ends(folder: Path) -> None:
    with Proxy(folder / "nobody") as proxy, socket.create_connection(("127.0.0.1", proxy.port), timeout=LONG) as client:
        assert is_over(client)
