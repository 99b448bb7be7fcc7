"""What the proxy does to connections, seen from both of its ends."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.chaos.proxy import Proxy
from tests.processes import wait_until

SHORT, LONG = 0.5, 10.0


@pytest.fixture
def proxy(folder: Path) -> Iterator[Proxy]:
    """Before a server that says again what it hears."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "echo"))
        server.listen()
        threading.Thread(target=echo_all, args=(server,), daemon=True).start()
        with Proxy(folder / "echo") as proxy:
            yield proxy
        # Its thread waits in accept(), which a close does not end.
        server.shutdown(socket.SHUT_RDWR)


def echo_all(server: socket.socket) -> None:
    with suppress(OSError):
        while True:
            connection, _ = server.accept()
            threading.Thread(target=echo, args=(connection,), daemon=True).start()


def echo(connection: socket.socket) -> None:
    with connection, suppress(OSError):
        while data := connection.recv(65536):
            connection.sendall(data)


@pytest.fixture
def client(proxy: Proxy) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=LONG) as client:
        client.sendall(b"hello")
        assert read(client, 5) == b"hello"
        yield client


def read(client: socket.socket, size: int) -> bytes:
    """So many bytes, or those that came before the end."""
    data = b""
    while len(data) < size and (more := client.recv(size - len(data))):
        data += more
    return data


def is_over(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


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


def test_what_is_delayed_comes_later_and_in_its_order(proxy: Proxy, client: socket.socket) -> None:
    proxy.delay(SHORT)
    began = time.monotonic()
    for number in range(50):
        client.sendall(b"%02d" % number)
    wait_until(lambda: proxy.held_back == 100, SHORT, "all of it to be held back")
    proxy.delay(0.0)
    client.sendall(b"--")
    assert read(client, 102) == b"".join(b"%02d" % number for number in range(50)) + b"--"
    assert time.monotonic() - began >= SHORT


def test_the_answer_that_comes_to_so_many_bytes_is_cut_off(proxy: Proxy, client: socket.socket) -> None:
    proxy.cut_after(6)
    client.sendall(b"12345")
    assert read(client, 5) == b"12345"
    client.sendall(b"67890")
    assert is_over(client)


def test_nobody_behind_it_is_a_connection_that_ends(folder: Path) -> None:
    with Proxy(folder / "nobody") as proxy, socket.create_connection(("127.0.0.1", proxy.port), timeout=LONG) as client:
        assert is_over(client)
