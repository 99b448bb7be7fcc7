"""A server that says again what it hears, for tests of what is put before it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LONG = 10.0


@contextmanager
def echoing(path: Path) -> Iterator[None]:
    """At this socket."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        threading.Thread(target=_echo_all, args=(server,), daemon=True).start()
        yield
        # Its thread waits in accept(), which a close does not end.
        server.shutdown(socket.SHUT_RDWR)


def _echo_all(server: socket.socket) -> None:
    with suppress(OSError):
        while True:
            connection, _ = server.accept()
            threading.Thread(target=_echo, args=(connection,), daemon=True).start()


def _echo(connection: socket.socket) -> None:
    with connection, suppress(OSError):
        while data := connection.recv(65536):
            connection.sendall(data)


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
