"""`python forwarding.py ADDRESS PORT SOCKET`: whoever connects to the address speaks to the Unix socket."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress


async def forward(address: str, port: int, socket: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, asked = await asyncio.open_unix_connection(socket)
        await asyncio.gather(hand_on(reader, asked), hand_on(answers, writer))

    async with await asyncio.start_server(serve, address, port) as server:
        await server.serve_forever()


async def hand_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


if __name__ == "__main__":
    asyncio.run(forward(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
