"""A TCP proxy before a server's socket, whose connections can be cut, frozen, slowed down, or cut after so many bytes.

It runs on an event loop in a thread of its own; every verb may be called from any thread, and returns when it is done.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

NEXT = 1e-6
"""Seconds between two pieces of one connection that are held back: timers of one instant have no order."""


class Proxy:
    """`with Proxy(socket) as proxy:` forwards what comes to `proxy.port` of this machine."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="chaos-proxy", daemon=True)
        self._sides: set[_Side] = set()
        self._connecting: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.is_frozen = False
        self._delay = 0.0
        self._delayed = 0
        self._budget = 0
        self._cut_off: Callable[[], object] | None = None
        self.port = 0

    def __enter__(self) -> Proxy:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._tell(self._close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    # --- verbs ---------------------------------------------------------------------------------

    def cut(self) -> int:
        """Break every connection; how many there were."""
        return int(self._tell(self._cut))

    def freeze(self) -> None:
        """Pass on nothing more, and break nothing: as if the network had gone."""
        self._tell(self._freeze)

    def thaw(self) -> None:
        self._tell(self._thaw)

    def delay(self, seconds: float) -> int:
        """Pass everything on so much later; 0: at once. How many bytes the delay that this one follows has held up."""
        return int(self._tell(lambda: self._slow_down(seconds)))

    def cut_after(self, size: int, then: Callable[[], object]) -> None:
        """Break the connection on which the server's answers have come to so many bytes more, on all of them together,
        and call ``then`` on the proxy's thread. An earlier one that has not come to that is forgotten.

        What was asked for has been done then, and nobody hears of it.
        """
        self._tell(lambda: self._limit(size, then))

    @property
    def is_slow(self) -> bool:
        return self._delay > 0

    @property
    def held_back(self) -> int:
        """Bytes that are to be passed on later."""
        return sum(side.held_back for side in list(self._sides))

    def _tell(self, verb: Callable[[], Any]) -> Any:
        done: Future[Any] = Future()

        def call() -> None:
            try:
                done.set_result(verb())
            except Exception as error:
                done.set_exception(error)

        self._loop.call_soon_threadsafe(call)
        return done.result(10)

    # --- on the loop ---------------------------------------------------------------------------

    async def _listen(self) -> None:
        self._server = await self._loop.create_server(lambda: _Side(self, is_client=True), "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._cut()

    def _cut(self) -> int:
        sides = list(self._sides)
        for side in sides:
            side.abort()
        return len(sides) // 2

    def _freeze(self) -> None:
        self.is_frozen = True
        for side in self._sides:
            side.pause()

    def _thaw(self) -> None:
        self.is_frozen = False
        for side in self._sides:
            if side.peer is not None:
                side.go_on()

    def _slow_down(self, seconds: float) -> int:
        delayed, self._delayed = self._delayed, 0
        self._delay = seconds
        return delayed

    def _limit(self, size: int, then: Callable[[], object]) -> None:
        self._budget, self._cut_off = size, then

    def opened(self, client: _Side) -> None:
        """A client has connected: nothing of it is read before the server is reached."""
        self._sides.add(client)
        client.pause()
        task = self._loop.create_task(self._connect(client))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self, client: _Side) -> None:
        try:
            _, server = await self._loop.create_unix_connection(lambda: _Side(self, is_client=False), str(self._target))
        except OSError:
            client.abort()
            return
        self._sides.add(server)
        client.peer, server.peer = server, client
        if client.is_over:
            server.abort()
        for side in (client, server):
            side.pause() if self.is_frozen else side.go_on()

    def closed(self, side: _Side) -> None:
        self._sides.discard(side)
        if side.peer is not None and not side.peer.is_over:
            side.peer.end()

    def pass_on(self, side: _Side, data: bytes) -> None:
        """What one side has said, to the other one: now, later, or never."""
        if side.peer is None or side.peer.is_over:
            return
        if not side.is_client and self._cut_off is not None:
            self._budget -= len(data)
            if self._budget <= 0:
                then, self._cut_off = self._cut_off, None
                side.abort()
                then()
                return
        if self._delay:
            self._delayed += len(data)
        side.peer.write(data, self._delay)


class _Side(asyncio.Protocol):
    """One end of a connection through the proxy: the client's or the server's."""

    def __init__(self, proxy: Proxy, *, is_client: bool) -> None:
        self._proxy = proxy
        self.is_client = is_client
        self.peer: _Side | None = None
        self.is_over = False
        self._due = 0.0
        self.held_back = 0

    def connection_made(self, transport: Any) -> None:
        self._transport: Any = transport
        if self.is_client:
            self._proxy.opened(self)

    def data_received(self, data: bytes) -> None:
        self._proxy.pass_on(self, data)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_over = True
        self._proxy.closed(self)

    def write(self, data: bytes, delay: float) -> None:
        if not delay and not self.held_back:
            self._write(data)
            return
        loop = self._proxy._loop
        self._due = max(self._due + NEXT, loop.time() + delay)
        self.held_back += len(data)
        loop.call_at(self._due, self._write_late, data)

    def _write_late(self, data: bytes) -> None:
        self.held_back -= len(data)
        self._write(data)

    def _write(self, data: bytes) -> None:
        if not self.is_over and not self._transport.is_closing():
            self._transport.write(data)

    def pause(self) -> None:
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def go_on(self) -> None:
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def end(self) -> None:
        """What is written already still goes out."""
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()
        if self.peer is not None and not self.peer.is_over:
            self.peer._transport.abort()
