"""The failures of many in one stored value: the more there are, the less is told of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .codec import encode

TOGETHER_MAX = 256 * 1024
"""Bytes: they are part of a journal, and every claim reads all of it."""

LENGTHS = ((1000, 500), (500, 0), (200, 0), (60, 0), (20, 0))
"""Characters of the message and of the traceback: the first that fit, else the last. What else there is (paths, ids,
the type) is kept: some 200 bytes for each failure, however many there are."""

LONG = ("traceback", "notes", "cause", "exceptions")


def encode_failures(failures: Mapping[Any, dict[str, Any]], limit: int = TOGETHER_MAX) -> str:
    """Failures as ``describe`` tells them, as text of about ``limit`` bytes at most.

    Where they take more, those that have more than their share of it are told in brief, and say so: ``cut``. Whatever
    failed, a step or a run, keeps its own.
    """
    text = encode(failures)
    if len(text) <= limit:
        return text
    share = limit // len(failures)
    # The key and what joins it to the rest take some of it too.
    return encode({key: in_brief(told, share - len(encode(key)) - 4) for key, told in failures.items()})


def in_brief(told: dict[str, Any], limit: int) -> dict[str, Any]:
    """``told`` in about ``limit`` bytes."""
    if len(encode(told)) <= limit:
        return told
    for message, traceback in LENGTHS:
        brief = _cut(told, message, traceback)
        if len(encode(brief)) <= limit:
            break
    return brief


def _cut(told: dict[str, Any], message: int, traceback: int) -> dict[str, Any]:
    text, frames = str(told.get("message", "")), str(told.get("traceback", ""))
    return {
        **{key: value for key, value in told.items() if key not in LONG},
        "message": text if len(text) <= message else f"{text[:message]}…",
        "traceback": frames if len(frames) <= traceback else f"…{frames[-traceback:]}" if traceback else "",
        "cut": True,
    }
