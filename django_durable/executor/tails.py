"""Whether a workflow's function does nothing but return once a ``ctx`` call has come to its value.

What that call has to store can then go with the outcome, in one commit: between the two no code runs that could know
of it. The compiled function tells; where it is not sure, the answer is no, and the call is stored before it returns.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

PLAIN = frozenset(
    {
        "BUILD_CONST_KEY_MAP",
        "BUILD_LIST",
        "BUILD_MAP",
        "BUILD_TUPLE",
        "COPY",
        "END_SEND",
        "LOAD_CONST",
        "LOAD_FAST",
        "LOAD_FAST_BORROW",
        "LOAD_FAST_BORROW_LOAD_FAST_BORROW",
        "LOAD_FAST_LOAD_FAST",
        "LOAD_SMALL_INT",
        "NOP",
        "NOT_TAKEN",
        "POP_TOP",
        "STORE_FAST",
        "STORE_FAST_LOAD_FAST",
        "STORE_FAST_STORE_FAST",
        "SWAP",
    }
)
"""Instructions that call nobody: they move the value into a variable, or into a new tuple, list or dict by names."""

ENDS = frozenset({"RETURN_CONST", "RETURN_VALUE"})


class Tails:
    """Of one function, which is called from code of the module ``caller``."""

    __slots__ = ("_caller", "_code", "_offsets")

    def __init__(self, fn: Any, caller: str) -> None:
        code = getattr(fn, "__code__", None)
        self._code: CodeType | None = code if isinstance(code, CodeType) else None
        self._offsets: frozenset[int] = _offsets(code) if isinstance(code, CodeType) else frozenset()
        self._caller = caller

    def is_at_end(self, depth: int) -> bool:
        """Whether the frame ``depth`` calls above is the function's, called by the engine, at such a call."""
        if not self._offsets:
            return False
        frame: FrameType = sys._getframe(depth + 1)
        if frame.f_code is not self._code or frame.f_lasti not in self._offsets:
            return False
        # A function that calls itself goes on after that.
        return frame.f_back is not None and frame.f_back.f_globals.get("__name__") == self._caller


@lru_cache(maxsize=1024)
def tails_of(fn: Any, caller: str) -> Tails:
    return Tails(fn, caller)


def _offsets(code: CodeType) -> frozenset[int]:
    return frozenset(_find(list(dis.get_instructions(code)), len(code.co_code)))


def _find(instructions: Sequence[dis.Instruction], end: int) -> Iterator[int]:
    """Every offset that a frame may have while it is in such a call, or in such an await."""
    places = {instruction.offset: place for place, instruction in enumerate(instructions)}
    for place, instruction in enumerate(instructions):
        if instruction.opname == "SEND":
            after = places.get(instruction.argval)
        elif instruction.opname.startswith("CALL"):
            after = place + 1
        else:
            continue
        if after is not None and _only_returns(instructions[after:]):
            following = instructions[place + 1].offset if place + 1 < len(instructions) else end
            # Behind the instruction lies its cache, which an inlined call leaves the frame at.
            yield from range(instruction.offset, following)


def _only_returns(instructions: Sequence[dis.Instruction]) -> bool:
    for instruction in instructions:
        if instruction.opname in ENDS:
            return True
        if instruction.opname not in PLAIN:
            return False
    return False
