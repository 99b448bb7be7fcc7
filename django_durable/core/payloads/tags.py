"""The registry of tags: how values that JSON does not know are said in it, and made again.

A tag is a name, one exact class, and two functions: value to data (which may hold values that are tagged in turn) and
data to value. The set is fixed by code that is imported; nothing is ever imported because a stored text names it.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite
from struct import pack, unpack
from typing import Any, TypeVar
from uuid import UUID

from ...exceptions import PayloadUndecodable
from . import moments
from .failures import short
from .refusals import Refusal, unknown_type

MARK = "$"
MAX_DEPTH = 200
"""Levels of JSON; a tag takes one of its own. Far below what the stack allows when the text is read again."""
MAX_DIGITS = 4_300
"""Of an int. Python's default limit: a longer one could be written here and not be read elsewhere."""

T = TypeVar("T")
_TOO_BIG = 10**MAX_DIGITS
_FLOAT_BITS = {name: pack(">d", float(name)).hex() for name in ("nan", "inf", "-inf")}
_FLOAT_NAMES = {bits: name for name, bits in _FLOAT_BITS.items()}
_SPLIT_CHARACTER = re.compile("(?<=[\ud800-\udbff])(?=[\udc00-\udfff])")
has_split_character = _SPLIT_CHARACTER.search
"""Finds two surrogates that JSON would join to one character when it reads their escapes."""


@dataclass(frozen=True, slots=True)
class Tag:
    name: str
    cls: type[Any]
    to_data: Callable[[Any], Any]
    from_data: Callable[[Any], Any]


_by_class: dict[type[Any], Tag] = {}
_by_name: dict[str, Tag] = {}


def register_tag(name: str, cls: type[T], to_data: Callable[[T], Any], from_data: Callable[[Any], T]) -> None:
    """Make values of exactly ``cls`` storable under ``name``, for good: stored texts will hold that name.

    ``to_data`` returns what the codec can encode, ``from_data`` makes the value of it and may raise anything for data
    that does not fit. Registering a reloaded class again replaces it. Raises ``ValueError`` if the name or the class
    is taken.
    """
    known, other = _by_name.get(name), _by_class.get(cls)
    if known is not None and not _is_same_class(known.cls, cls):
        raise ValueError(f"{name!r} is taken by {known.cls.__module__}.{known.cls.__qualname__}: choose another name.")
    if other is not None and other.name != name:
        raise ValueError(f"{cls.__module__}.{cls.__qualname__} is registered already, as {other.name!r}.")
    if known is not None:
        del _by_class[known.cls]
    _by_name[name] = _by_class[cls] = Tag(name, cls, to_data, from_data)


def _is_same_class(one: type[Any], other: type[Any]) -> bool:
    # A module that is reloaded makes its classes anew.
    return one is other or (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)


def tagged(value: Any) -> tuple[str, Any]:
    """Tag and data of a value. Raises ``Refusal`` for a class that has no tag."""
    tag = _by_class.get(type(value))
    if tag is None:
        raise unknown_type(type(value))
    try:
        return tag.name, tag.to_data(value)
    except Refusal:
        raise
    except Exception as error:
        raise Refusal(f"a {tag.cls.__name__} cannot be stored: {short(error)}") from error


def revive(name: str, data: Any) -> Any:
    """The value that a tag and its data stand for. Raises ``PayloadUndecodable``."""
    tag = _by_name.get(name)
    if tag is None:
        raise PayloadUndecodable(_unknown(name))
    try:
        return tag.from_data(data)
    except PayloadUndecodable:
        raise
    except Exception as error:
        raise PayloadUndecodable(f"{name}: {short(error)}") from error


def _unknown(name: str) -> str:
    if name.startswith("@"):
        return f"no class is registered as {name[1:81]!r}. Is the module with its @durable_type imported?"
    return f"unknown tag {name[:80]!r}"


# --- values of plain types that JSON gets wrong ----------------------------------------------


def exact_atom(value: int | float | str) -> Any:
    """The int, float or str itself, or what stands for it in JSON. Raises ``Refusal`` for an int that is too long."""
    if type(value) is int:
        if not -_TOO_BIG < value < _TOO_BIG:
            raise Refusal(f"an int of more than {MAX_DIGITS:,} digits cannot be stored; store it as bytes")
        return value
    if type(value) is float:
        return value if isfinite(value) else {MARK: "float", "v": _special_float(value)}
    if type(value) is str and has_split_character(value):
        return {MARK: "str", "v": _SPLIT_CHARACTER.split(value)}
    return value


def _special_float(value: float) -> str:
    """The name, or for a NaN other than the usual one its bits, which carry a sign and a number."""
    bits = pack(">d", value).hex()
    return _FLOAT_NAMES.get(bits, bits)


def _float(data: Any) -> float:
    value: float = unpack(">d", bytes.fromhex(_FLOAT_BITS.get(data, data)))[0]
    if isfinite(value):
        raise ValueError("an ordinary float in a tag")
    return value


def _str(data: Any) -> str:
    return "".join(_of(list, data))


# --- containers and scalars ------------------------------------------------------------------


def _of(kind: type[T], data: Any) -> T:
    if type(data) is not kind:
        raise TypeError(f"{kind.__name__} expected, not {type(data).__name__}")
    return data


def _set(data: Any) -> set[Any]:
    found = set(_of(list, data))
    if len(found) != len(data):
        raise ValueError("has an element twice")
    return found


def _dict(data: Any) -> dict[Any, Any]:
    if not all(type(item) is list and len(item) == 2 for item in _of(list, data)):
        raise ValueError("pairs expected")
    found = dict(data)
    if len(found) != len(data):
        raise ValueError("has a key twice")
    return found


def _bytes(data: Any) -> bytes:
    return b64decode(_of(str, data), validate=True)


def _no_data(value: Any) -> Any:
    raise TypeError("is written by exact_atom")


register_tag("float", float, _no_data, _float)
register_tag("str", str, _no_data, _str)
register_tag("tuple", tuple, list, lambda data: tuple(_of(list, data)))
register_tag("set", set, list, _set)
register_tag("frozenset", frozenset, list, lambda data: frozenset(_set(data)))
register_tag("dict", dict, lambda value: [[key, item] for key, item in value.items()], _dict)
register_tag("bytes", bytes, lambda value: b64encode(value).decode(), _bytes)
register_tag("decimal", Decimal, str, lambda data: Decimal(_of(str, data)))
register_tag("uuid", UUID, str, lambda data: UUID(_of(str, data)))
register_tag("datetime", moments.datetime, moments.moment_to_data, moments.datetime_from)
register_tag("date", moments.date, moments.date.isoformat, lambda data: moments.date.fromisoformat(_of(str, data)))
register_tag("time", moments.time, moments.moment_to_data, moments.time_from)
register_tag("timedelta", moments.timedelta, moments.timedelta_to_data, moments.timedelta_from)
