"""The text and the values of the codec by orjson, where it is installed (the extra ``fast``): the same ones, sooner.

orjson writes and reads some things otherwise than ``json``, or refuses them. Refusals are exceptions, upon which the
caller goes its own way. What it would do in silence is looked for, and left to the caller too: values that are more
than JSON (orjson takes tuples, UUIDs, Enums and dataclasses for it), floats whose texts differ, other texts than ASCII,
and long ints, which it reads as floats.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import chain
from types import NoneType
from typing import Any

from .tags import MARK

try:
    import orjson
except ImportError:
    is_there = False
else:
    is_there = True

_SAME = frozenset({NoneType, bool, int, str})
_KNOWN = _SAME | {float, dict, list}
_MARKED = f'"{MARK}":'.encode()
_LEVELS_MAX = 32
"""Deeper ones need a stack that not every caller has left, which is for the caller's own way to say."""
_ITEMS_MAX = 250_000
"""Of one level. Lists that hold themselves, or one another often, would fill the memory."""

_LONG = 19
"""Digits, from which on an int may need more than 64 bits."""
_STRIDE = 9
_AS_ZERO = bytes.maketrans(b"123456789", b"0" * 9)
_ZEROS = b"0" * _LONG
_ZEROS_IN_STRIDE = b"0" * (_LONG // _STRIDE)


def written(value: object, to_json: Callable[[Any], str]) -> str | None:
    """The text of a value that is JSON as it stands, else None. ``to_json`` writes what orjson writes otherwise."""
    is_same = _is_written_the_same(value)
    if is_same is None:
        return None
    try:
        data = orjson.dumps(value)
    except TypeError:  # a key that is no str, an int of more than 64 bits, half a character
        return None
    if b"$" in data and _MARKED in data:
        return None
    if is_same and data.isascii() and b"\x7f" not in data:
        return data.decode()
    return to_json(value)


def read(text: str, from_json: Callable[[str], Any]) -> Any:
    """What ``from_json`` makes of the text, or its exception, which alone tells what is wrong."""
    if type(text) is not str or (len(text) >= _LONG and _has_long_number(text)):
        return from_json(text)
    try:
        return orjson.loads(text)
    except ValueError:
        return from_json(text)


def _is_written_the_same(value: Any) -> bool | None:
    """Whether orjson writes the floats of a value as ``repr`` does. None if the value is more than JSON."""
    kind = type(value)
    if kind in _SAME:
        return True
    if kind is dict:
        return _are_written_the_same(value.values())
    return _are_written_the_same(value) if kind is list else None


def _are_written_the_same(level: Collection[Any]) -> bool | None:
    is_same = True
    # All of a level at once: what runs for each item is C.
    for _ in range(_LEVELS_MAX):
        kinds = set(map(type, level))
        if kinds <= _SAME:
            return is_same
        if not kinds <= _KNOWN:
            return None
        if float in kinds:
            is_same = is_same and _are_usual(level)
        inner: list[Collection[Any]] = []
        if dict in kinds:
            inner += [item.values() for item in level if type(item) is dict]
        if list in kinds:
            inner += [item for item in level if type(item) is list]
        if not inner:
            return is_same
        if sum(map(len, inner)) > _ITEMS_MAX:
            return None
        level = list(chain.from_iterable(inner))
    return None


def _are_usual(level: Collection[Any]) -> bool:
    """Whether all floats are among those that are written without an exponent, which has more than one form."""
    return not [item for item in level if type(item) is float and not (1e-4 <= abs(item) < 1e16 or item == 0)]


def _has_long_number(text: str) -> bool:
    """Whether there are so many digits in a row, be it in a string."""
    data = text.encode("ascii", "replace")
    # Most texts are done with when a part of them has been looked at: so many digits in a row show in it as well.
    if _ZEROS_IN_STRIDE not in data[::_STRIDE].translate(_AS_ZERO):
        return False
    return _ZEROS in data.translate(_AS_ZERO)
