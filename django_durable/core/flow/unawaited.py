"""Calls of an ``async def`` workflow that were made and never begun: nobody has awaited them, and nothing was done."""

from __future__ import annotations

from collections.abc import Coroutine
from inspect import CORO_CREATED, getcoroutinelocals, getcoroutinestate
from types import CoroutineType
from typing import Any, TypeVar, cast


async def _nothing() -> None:
    """What has been awaited before the first call."""


_OVER = cast("CoroutineType[Any, Any, Any]", _nothing())
_OVER.close()


C = TypeVar("C", bound=Coroutine[Any, Any, Any])


class Unawaited:
    """Of one line. A call may be begun long after it was made: what was forgotten shows at the end of the line."""

    __slots__ = ("_earlier", "_last")

    def __init__(self) -> None:
        self._last = _OVER
        self._earlier: list[CoroutineType[Any, Any, Any]] = []

    def add(self, call: C) -> C:
        """Take note of ``call``, which was made just now."""
        # The one before is nearly always over, and has no frame any more.
        if self._last.cr_frame is not None and _is_left(self._last):
            self._earlier.append(self._last)
        self._last = call  # type: ignore[assignment]
        return call

    def end(self) -> str | None:
        """The name of the first call that was not begun; none of them can be from here on."""
        left = [call for call in (*self._earlier, self._last) if _is_left(call)]
        name = getcoroutinelocals(left[0])["name"] if left else None
        for call in left:
            call.close()
        self._last, self._earlier = _OVER, []
        return name


def _is_left(call: CoroutineType[Any, Any, Any]) -> bool:
    return getcoroutinestate(call) == CORO_CREATED
