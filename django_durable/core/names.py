"""Names and keys that people choose, and the paths that are made of them.

A path is what identifies a journal entry for good: ``import/rows[17]/save``. The characters that join it
are escaped in names and keys, so that two different names can never make one path.
"""

from __future__ import annotations

import re
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from uuid import UUID

from ..exceptions import InvalidKey, InvalidName

NAME_MAX = 200
PATH_MAX = 500
"""Characters; an entry's path is part of an index, whose rows PostgreSQL caps at about 2,700 bytes."""

ON_FAILURE = "%on_failure"
"""The path of the ``on_failure`` step. Escaped names never hold a bare "%": no name that a person chose can be it."""

_LASTING = (str, int, float, Decimal, UUID, date, time, timedelta)
"""Whose text is the same in every process. One that depends on an address, a hash or a language is another one in the
next replay, which would not find the entry and do its work again."""

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
    if not isinstance(key, Enum) and not _is_lasting(key):
        raise InvalidKey(key)
    return str(key)


def _is_lasting(key: object) -> bool:
    return all(map(_is_lasting, key)) if isinstance(key, tuple) else isinstance(key, _LASTING)


def fit_path(path: str) -> str:
    """``path`` if a column can hold it; raises InvalidName for a longer one."""
    if len(path) > PATH_MAX:
        raise InvalidName("path", path, f"is longer than {PATH_MAX} characters")
    return path
