"""The path to the part of a value that cannot be stored. Slow, and only for errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .refusals import Refusal
from .tags import MARK, MAX_DEPTH, tagged

PATH_MAX = 300
_SHOWN_INT = 10**18

Check = Callable[[Any, int], Any]
"""Encodes a part that is so many levels deep in the JSON; raises ``Refusal``."""


def locate(value: Any, root: str, check: Check) -> tuple[str, str]:
    """Path and reason of the first part of ``value``, as deep in it as can be, that ``check`` refuses."""
    path, depth, above = root, 0, [value]
    while depth < MAX_DEPTH and (found := _first_refused(value, depth, check)) is not None:
        step, value, depth = found
        path += step
        if any(value is container for container in above):
            return _shortened(path), "it contains itself"
        above.append(value)
    return _shortened(path), _reason(value, depth, check)


def _first_refused(value: Any, depth: int, check: Check) -> tuple[str, Any, int] | None:
    for step, part, deeper in _parts(value):
        try:
            check(part, depth + deeper)
        except Refusal:
            return step, part, depth + deeper
    return None


def _parts(value: Any) -> Iterator[tuple[str, Any, int]]:
    """Each part of a container: how the path goes on to it, the part, and how many levels of JSON deeper it is."""
    kind = type(value)
    if kind is dict:
        yield from _items(value)
    elif kind is list or kind is tuple:
        for index, item in enumerate(value):
            yield f"[{index}]", item, 1 if kind is list else 2
    elif kind is set or kind is frozenset:
        for item in value:
            yield "{…}", item, 2
    else:
        yield from _data(value)


def _items(value: dict[Any, Any]) -> Iterator[tuple[str, Any, int]]:
    deeper = 1 if MARK not in value and all(type(key) is str for key in value) else 3
    for key, item in value.items():
        yield f".keys(){{{_shown(key)}}}", key, 3
        yield f"[{_shown(key)}]", item, deeper


def _data(value: Any) -> Iterator[tuple[str, Any, int]]:
    try:
        _, data = tagged(value)
    except Refusal:
        return
    if type(data) is dict:
        for name, item in data.items():
            yield f".{name}", item, 2
    else:
        yield "", data, 1


def _reason(value: Any, depth: int, check: Check) -> str:
    try:
        check(value, depth)
    except Refusal as refusal:
        return refusal.reason
    return "it changed while it was being encoded"


def _shown(key: Any) -> str:
    # Of other keys only the type: their repr may be long, or raise.
    if type(key) is str:
        return repr(key) if len(key) <= 60 else f"{key[:60]!r}…"
    if type(key) is int and -_SHOWN_INT < key < _SHOWN_INT:
        return repr(key)
    return f"<{type(key).__name__}>"


def _shortened(path: str) -> str:
    half = PATH_MAX // 2
    return path if len(path) <= PATH_MAX else f"{path[:half]} … {path[-half:]}"
