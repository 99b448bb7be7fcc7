"""An event loop of a test's own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

PATIENCE = 60


def work(body: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """What ``body()`` returns on a loop of its own; a hang is a failure and not a hanging test run."""

    async def bounded() -> Any:
        return await asyncio.wait_for(body(), PATIENCE)

    found: list[Any] = []

    def serve() -> None:
        try:
            found.append(asyncio.run(bounded()))
        except BaseException as error:
            found.append(error)

    # A loop that spins cannot be stopped from inside: the test then fails, and leaves its thread behind.
    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    thread.join(PATIENCE + 5)
    assert not thread.is_alive(), "the event loop is blocked"
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


def after_turns(call: Callable[[], object], turns: int = 20) -> None:
    """Make ``call`` when the loop has gone round so often: whoever is about to wait, or to be cancelled, then is."""
    if turns:
        asyncio.get_running_loop().call_soon(after_turns, call, turns - 1)
    else:
        call()


async def one() -> int:
    """A step."""
    return 1
