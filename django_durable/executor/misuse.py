"""``ctx`` calls that cannot work where they are made."""

from __future__ import annotations

import inspect
import threading

from ..core.flow.executing import executing_line
from ..core.flow.flow import Flow
from ..exceptions import ContextMisuse


def refuse_other_thread(flow: Flow, own: int, name: str) -> None:
    """Fail the run in any thread but ``own``, the one that the line's code runs in: nobody may look after a thread."""
    if threading.get_ident() != own:
        flow.refuse(
            ContextMisuse(
                f"ctx was used in another thread than the workflow's own, at {name!r}. "
                "Threads belong inside a step; call ctx from the workflow's function."
            )
        )


def refuse_outer_context(flow: Flow, name: str, other: str) -> None:
    """Raise ContextMisuse in the code of a branch, a turn or a block that has a ``ctx`` of its own: also of a branch
    that lost a race, whose outer function has gone on. ``other`` is the latest call of that one."""
    line = executing_line()
    if line is not None and line is not flow and line.run is flow.run:
        raise ContextMisuse(
            f"ctx was used at {name!r} by code that its call {other!r} runs. "
            "Use the ctx that the branch's, turn's or block's own function is given."
        )


def side_by_side(name: str, other: str) -> ContextMisuse:
    """The error of a call that began before another one was over."""
    return ContextMisuse(
        f"ctx was used at {name!r} while its call {other!r} was not over. Await each ctx call before the next one: "
        "to run calls side by side, give each a branch of ctx.join."
    )


def left_under_way(name: str) -> ContextMisuse:
    """The error of a function that ended before its call did."""
    return ContextMisuse(
        f"The workflow's function ended while its ctx call {name!r} was under way. Await each ctx call."
    )


def not_awaited(name: str) -> ContextMisuse:
    """The error of a call that was made, and never begun."""
    return ContextMisuse(f"The ctx call {name!r} was not awaited, so nothing of it was done. Await each ctx call.")


def cut_short(name: str) -> ContextMisuse:
    """The error of a call that the workflow's own code cancelled while it was under way."""
    return ContextMisuse(
        f"The ctx call {name!r} was cancelled while it was under way, by asyncio.timeout(), asyncio.wait_for(), a task "
        "group or cancel(). A replay would find it done and go another way. "
        "Give the step, or the wait for an event, a timeout= instead."
    )


def refuse_coroutine_body(value: object) -> None:
    """Raise ContextMisuse where the code of a branch, a turn or a block of a ``def`` workflow is a coroutine."""
    if inspect.iscoroutine(value):
        value.close()
        raise ContextMisuse(
            f"{value.__qualname__} is a coroutine function, and the workflow a plain one: its branches, turns and "
            "blocks are plain functions too. Its steps may be coroutine functions."
        )
