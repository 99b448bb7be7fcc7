"""Names and keys that people choose, and the paths that are made of them.

A path is what identifies a journal entry for good: ``import/rows[17]/save``. The characters that join it
are escaped in names and keys, so that two different names can never make one path.
"""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum
from functools import lru_cache
from uuid import UUID
from zoneinfo import ZoneInfo

from ..exceptions import InvalidKey, InvalidName

NAME_MAX = 200
QUEUE_MAX = 100
PATH_MAX = 500
"""Characters; an entry's path is part of an index, whose rows PostgreSQL caps at about 2,700 bytes."""

ON_FAILURE = "%on_failure"
"""The path of the ``on_failure`` step. Escaped names never hold a bare "%": no name that a person chose can be it."""

_LASTING = (str, int, float, Decimal, UUID, date, time, timedelta)
"""Whose text is the same in every process. One that depends on an address, a hash or a language is another one in the
next replay, which would not find the entry and do its work again."""

_PLAIN_STR = (Enum.__str__, Flag.__str__, IntEnum.__str__, str.__str__)
_PLAIN_REPR = tuple(cls.__repr__ for cls in (*_LASTING, bool, datetime))

_UNFIT = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_JOINERS = re.compile(r"[%/\[\]]")


def check_name(what: str, name: object) -> str:
    """``name`` if it is a fit name for ``what``; raises InvalidName for anything else."""
    if not isinstance(name, str):
        raise InvalidName(what, name, f"must be a string, not {type(name).__name__}")
    if not name.strip():
        raise InvalidName(what, name, "is empty")
    if len(name) > NAME_MAX:
        raise InvalidName(what, name, f"is longer than {NAME_MAX} characters")
    if _UNFIT.search(name):
        raise InvalidName(what, name, "has control characters or lone surrogates")
    return name


@lru_cache(maxsize=4096)
def _escaped(what: str, name: str) -> str:
    check_name(what, name)
    return _JOINERS.sub(lambda match: f"%{ord(match.group()):02X}", name)


def make_path(scope: str, name: str, key: object = None) -> str:
    """The path of ``name`` (with ``key``) in ``scope``; raises InvalidName."""
    if type(name) is not str:
        check_name("name", name)  # which may be unhashable: the cache must not see it
    path = scope + _escaped("name", name)
    if key is not None:
        return keyed_path(path, key)
    return fit_path(path)


def keyed_path(path: str, key: object) -> str:
    """The path of the call with this ``key`` whose name makes ``path``; raises InvalidName."""
    text = key if type(key) is str else _text_of(key)
    return fit_path(f"{path}[{_escaped('key', text)}]")


def check_key(key: object) -> None:
    """Raise InvalidKey, InvalidName for what cannot be a call's ``key``."""
    _escaped("key", _text_of(key))


def _text_of(key: object) -> str:
    if isinstance(key, Enum):
        return _text_of_member(key)
    if isinstance(key, tuple):
        return str(tuple(_told_in_tuple(part, key) for part in key))
    if not isinstance(key, _LASTING):
        raise InvalidKey(key)
    return str(key)


def _text_of_member(key: Enum) -> str:
    # One that a class of one's own makes may be in the reader's language, or tell an address.
    if type(key).__str__ in _PLAIN_STR:
        return str(key)
    if not isinstance(key.value, _LASTING) or isinstance(key.value, Enum):
        raise InvalidKey(key)
    return _text_of(key.value)


def _told_in_tuple(part: object, key: object) -> object:
    """What ``str()`` of a tuple tells of it in words that are the same in every process. Raises InvalidKey."""
    if isinstance(part, Enum) and isinstance(part, _LASTING):
        return _told_in_tuple(part.value, key)
    if isinstance(part, tuple):
        return tuple(_told_in_tuple(inner, key) for inner in part)
    if type(part).__repr__ not in _PLAIN_REPR or not _is_known(getattr(part, "tzinfo", None)):
        raise InvalidKey(key)
    return part


def _is_known(zone: object) -> bool:
    return zone is None or type(zone) is timezone or (type(zone) is ZoneInfo and zone.key is not None)


def fit_path(path: str) -> str:
    """``path`` if a column can hold it; raises InvalidName for a longer one."""
    if len(path) > PATH_MAX:
        raise InvalidName("path", path, f"is longer than {PATH_MAX} characters")
    return path
