"""``ctx`` calls that cannot work where they are made."""

from __future__ import annotations

import threading

from ..exceptions import ContextMisuse


def refuse_other_thread(own: int, name: str) -> None:
    """Raise ContextMisuse in any thread but ``own``, the one that the workflow's function runs in."""
    if threading.get_ident() != own:
        raise ContextMisuse(
            f"ctx was used in another thread than the workflow's own, at {name!r}. "
            "Threads belong inside a step; call ctx from the workflow's function."
        )


def outer_context(name: str, other: str) -> ContextMisuse:
    """The error of a call on the ``ctx`` of a function that has handed over to a branch, a turn or a block."""
    return ContextMisuse(
        f"ctx was used at {name!r} while its call {other!r} was not over. "
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


def cut_short(name: str) -> ContextMisuse:
    """The error of a call that the workflow's own code cancelled while it was under way."""
    return ContextMisuse(
        f"The ctx call {name!r} was cancelled while it was under way, by asyncio.timeout(), asyncio.wait_for(), a task "
        "group or cancel(). A replay would find it done and go another way. "
        "Give the step, or the wait for an event, a timeout= instead."
    )
