"""By what a replay knows the items of a map again: hashes of what would be stored of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from ...exceptions import PayloadError
from ..payloads.codec import encode

EACH_MAX = 100
"""Of so many items each has a digest, so that the one that differs can be named; of more there is one over all: it is
made at every replay, and stored with every change of the map's entry."""

Digests = list[str] | str


def digests_of(items: Sequence[Any]) -> Digests:
    """A digest of each item, or one of all. Empty for what cannot be encoded: of that only the count is known."""
    if len(items) > EACH_MAX:
        return _digest(list(items), 32)
    digests = [_digest(item, 8) for item in items]
    return digests if any(digests) else ""


def _digest(value: Any, digits: int) -> str:
    try:
        return hashlib.sha256(encode(value).encode()).hexdigest()[:digits]
    except PayloadError:
        return ""


def difference(path: str, before: Digests, now: Digests) -> str:
    """What is to be said where the items of the map at ``path`` are others than ``before``; empty where they are not,
    or where nobody can know."""
    if isinstance(before, list) and isinstance(now, list):
        pairs = enumerate(zip(before, now, strict=True))
        index = next((index for index, (old, new) in pairs if old and new and old != new), None)
        return "" if index is None else f"{path!r} was begun with another item {index} than the code now gives it."
    is_other = before and now and before != now
    return f"{path!r} was begun with other items, or in another order, than the code now gives it." if is_other else ""
