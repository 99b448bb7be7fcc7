"""Whether a workflow's function does nothing but return once a ``ctx`` call has come to its value.

What that call has to store can then go with the outcome, in one commit: between the two no code runs that could know
of it (but what Python itself calls as the function's variables go: ``__del__``). The compiled function tells; where it
is not sure, the answer is no, and the call is stored before it returns.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from types import CodeType, FrameType
from typing import Any

from ..core.flow.flow import Flow
from ..core.kinds.compensation import owes_losers

PLAIN = frozenset(
    {
        "BUILD_CONST_KEY_MAP",
        "BUILD_LIST",
        "BUILD_TUPLE",
        "COPY",
        "END_SEND",
        "LOAD_CONST",
        "LOAD_SMALL_INT",
        "NOP",
        "NOT_TAKEN",
        "POP_TOP",
        "STORE_FAST",
        "STORE_FAST_STORE_FAST",
        "SWAP",
    }
)
"""Instructions that call nobody and cannot fail: they move the value into a variable, or into a new tuple, list or dict
by constant names."""

READS = frozenset(
    {
        "LOAD_FAST",
        "LOAD_FAST_BORROW",
        "LOAD_FAST_BORROW_LOAD_FAST_BORROW",
        "LOAD_FAST_LOAD_FAST",
        "STORE_FAST_LOAD_FAST",
    }
)
"""The same, of variables that are known to be there: from 3.12 on another instruction reads those that may not be."""

ENDS = frozenset({"RETURN_CONST", "RETURN_VALUE"})


class Tails:
    """Of one function, which is called from code of the module ``caller``."""

    __slots__ = ("_caller", "_code", "_offsets")

    def __init__(self, fn: Any, caller: str) -> None:
        code = getattr(fn, "__code__", None)
        self._code: CodeType | None = code if isinstance(code, CodeType) else None
        self._offsets: frozenset[int] = _offsets(code) if isinstance(code, CodeType) else frozenset()
        self._caller = caller

    def may_wait(self, flow: Flow, depth: int) -> bool:
        """Whether what is pending in ``flow`` may be left to the outcome: the frame ``depth`` calls above is the
        function's, called by the engine, at such a call, and the outcome waits for no branch that has lost a race."""
        if not self._offsets:
            return False
        frame: FrameType = sys._getframe(depth + 1)
        if frame.f_code is not self._code or frame.f_lasti not in self._offsets:
            return False
        # A function that calls itself goes on after that.
        is_ours = frame.f_back is not None and frame.f_back.f_globals.get("__name__") == self._caller
        return is_ours and not flow.losers and not owes_losers(flow)


@lru_cache(maxsize=1024)
def tails_of(fn: Any, caller: str) -> Tails:
    return Tails(fn, caller)


def _offsets(code: CodeType) -> frozenset[int]:
    if not code.co_argcount or code.co_flags & (0x20 | 0x200):  # generators
        return frozenset()
    return frozenset(_find(code, list(dis.get_instructions(code))))


def _find(code: CodeType, instructions: Sequence[dis.Instruction]) -> Iterator[int]:
    """Every offset that a frame may have while it is in such a call, or in such an await."""
    places = {instruction.offset: place for place, instruction in enumerate(instructions)}
    for call in _calls_of_ctx(code, instructions):
        place, after = call, call + 1
        if (send := _awaited_by(instructions, call)) is not None:
            place, after = send, places[instructions[send].argval]
        if _only_returns(code, instructions, after):
            following = instructions[place + 1].offset if place + 1 < len(instructions) else len(code.co_code)
            # Behind the instruction lies its cache, which an inlined call leaves the frame at.
            yield from range(instructions[place].offset, following)


def _calls_of_ctx(code: CodeType, instructions: Sequence[dis.Instruction]) -> Iterator[int]:
    """The places of the instructions that call a method of the function's first parameter, and nothing else: what is
    called by another function, as ``map`` would, comes back to that one."""
    ctx = code.co_varnames[0]
    for place, (loaded, method) in enumerate(pairwise(instructions)):
        is_ctx = loaded.opname in ("LOAD_FAST", "LOAD_FAST_BORROW") and loaded.argval == ctx
        is_method = is_ctx and method.opname in ("LOAD_METHOD", "LOAD_ATTR")
        if is_method and (call := _call_of(instructions, place + 1)) is not None:
            yield call


def _call_of(instructions: Sequence[dis.Instruction], method: int) -> int | None:
    """Where the method that was loaded there is called: by the instruction that leaves one value in place of it, its
    object and its arguments. None where the way to it forks."""
    depth = 1
    for place in range(method, len(instructions)):
        one = instructions[place]
        if place > method and ("JUMP" in one.opname or one.opname in ("FOR_ITER", "SEND", "YIELD_VALUE")):
            return None
        try:
            depth += dis.stack_effect(one.opcode, one.arg if one.opcode >= dis.HAVE_ARGUMENT else None)
        except ValueError:
            return None
        if depth <= 1:
            is_call = place > method and depth == 1 and one.opname.startswith("CALL")
            return place if is_call else None
    return None


def _awaited_by(instructions: Sequence[dis.Instruction], call: int) -> int | None:
    """Where what is called there is awaited at once; None where it is not."""
    if call + 3 < len(instructions) and instructions[call + 1].opname == "GET_AWAITABLE":
        return call + 3 if instructions[call + 3].opname == "SEND" else None
    return None


def _only_returns(code: CodeType, instructions: Sequence[dis.Instruction], first: int) -> bool:
    known = set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    for place in range(first, len(instructions)):
        one = instructions[place]
        if one.opname in ENDS:
            return True
        if one.opname == "BUILD_MAP":
            # Other keys are hashed.
            if one.arg != 1 or place - 2 < first or instructions[place - 2].opname != "LOAD_CONST":
                return False
        elif one.opname in READS:
            if sys.version_info < (3, 12) and not known.issuperset(_names(one)):
                return False
        elif one.opname not in PLAIN:
            return False
        if one.opname.startswith("STORE_FAST"):
            known.update(_names(one))
    return False


def _names(instruction: dis.Instruction) -> tuple[Any, ...]:
    """The variables that it names: some instructions do the work of two."""
    return instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
