"""Exceptions as plain data. Recording a failure can itself never fail, whatever the exception does."""

from __future__ import annotations

import traceback
from typing import Any

from ..unwinding import Unwind

MESSAGE_MAX, TRACEBACK_MAX = 10_000, 20_000
FRAMES_MAX = 50
NOTES_MAX = 10
RELATED_MAX = 12
"""Exceptions in one description: the error, its causes and the members of its groups."""


def describe(
    error: BaseException, *, limit_message: int = MESSAGE_MAX, limit_traceback: int = TRACEBACK_MAX
) -> dict[str, Any]:
    """``type``, ``message``, ``traceback``; and if there are any ``notes``, ``cause``, ``exceptions`` (of a group).

    Strings, lists and dicts only, so ``encode`` takes it. A long message keeps its beginning, a long traceback its
    end; the limits are characters. The traceback holds no values of variables. Raises nothing.
    """
    return _describe(error, limit_message, limit_traceback, [])


def short(error: BaseException, most: int = 200) -> str:
    """Type and message in little more than ``most`` characters, for a sentence of ours. Raises nothing."""
    return f"{_type_of(error).rpartition('.')[2]}: {_message(error, most)}"


def in_one_line(text: str) -> str:
    """The text for a line of a log: nothing in it begins another one, or steers a terminal."""
    return text if text.isprintable() else "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def type_name(cls: type[BaseException]) -> str:
    """What ``type`` says of an error of this class."""
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def _describe(error: BaseException, message: int, frames: int, seen: list[BaseException]) -> dict[str, Any]:
    seen.append(error)
    found: dict[str, Any] = {
        "type": _type_of(error),
        "message": _message(error, message),
        "traceback": _traceback(error, frames),
    }
    if notes := _notes(error, message):
        found["notes"] = notes
    for key, related in (("cause", _cause(error)), ("exceptions", _members(error))):
        if told := [_describe(other, message, frames, seen) for other in related if _is_new(other, seen)]:
            found[key] = told[0] if key == "cause" else told
    return found


def _is_new(error: BaseException, seen: list[BaseException]) -> bool:
    return len(seen) < RELATED_MAX and not any(error is other for other in seen)


# --- parts, each of which may meet a class that misbehaves: hence BaseException throughout ---


def _type_of(error: BaseException) -> str:
    try:
        return _cut(type_name(type(error)), 500)
    except BaseException:
        return "Exception"


def _message(error: BaseException, limit: int) -> str:
    try:
        return _cut(str(error), limit)
    except BaseException as second:
        return f"<its str() raised {type(second).__name__}>"


def _traceback(error: BaseException, limit: int) -> str:
    try:
        frames = traceback.format_tb(error.__traceback__, -FRAMES_MAX)
        head = "Traceback (most recent call last):\n" if frames else ""
        return _cut_front(f"{head}{''.join(frames)}{_type_of(error)}: {_message(error, 200)}", limit)
    except BaseException as second:
        return f"<its traceback could not be formatted: {type(second).__name__}>"


def _notes(error: BaseException, limit: int) -> list[str]:
    try:
        notes = getattr(error, "__notes__", None)
        return [_cut(note, limit) for note in notes[:NOTES_MAX] if isinstance(note, str)] if type(notes) is list else []
    except BaseException:
        return []


def _cause(error: BaseException) -> list[BaseException]:
    try:
        cause = error.__cause__ if error.__suppress_context__ else error.__cause__ or error.__context__
        # What unwinds the workflow tells nothing.
        return [cause] if isinstance(cause, BaseException) and not isinstance(cause, Unwind) else []
    except BaseException:
        return []


def _members(error: BaseException) -> list[BaseException]:
    try:
        return list(error.exceptions) if isinstance(error, BaseExceptionGroup) else []
    except BaseException:
        return []


# --- text ------------------------------------------------------------------------------------


def _cut(text: str, limit: int) -> str:
    """An exact str, also of a subclass that overrides everything, with its end cut off."""
    exact = str.__getitem__(text, slice(limit))
    size = str.__len__(text)
    return exact if size <= limit else f"{exact}… ({size:,} characters)"


def _cut_front(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"({len(text):,} characters) …{text[-limit:]}"
