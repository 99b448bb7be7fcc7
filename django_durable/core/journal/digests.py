"""By what a replay knows the items of a map again: hashes of what would be stored of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...exceptions import PayloadError
from ..payloads.codec import encode
from ..payloads.tags import MARK

EACH_MAX = 100
"""Of so many items each has a digest, so that the one that differs can be named; of more there is one over all: it is
made at every replay, and stored with every change of the map's entry."""

SCHEME = 1
"""Of what is hashed. Another one says nothing about these digests: whoever changes the text of any value (the codec, a
tag) changes this too, else an upgrade would stop every map that is under way."""

UNTOLD = {"taken_event": ("run_id", "place")}
"""By tag: where a value comes from, which is no part of what it is."""

Fields = dict[str, list[str]]
"""Names of fields by tag."""


@dataclass(slots=True, frozen=True)
class Digests:
    """``of`` each item, or one of all; empty for what cannot be encoded, of which only the count is known."""

    of: list[str] | str
    fields: Fields = field(default_factory=dict)
    """Of dataclasses, those that there were: one that is added later makes no other item of what was begun without."""
    scheme: int = SCHEME

    @property
    def data(self) -> dict[str, Any]:
        return {"of": self.of, "scheme": self.scheme, **({"fields": self.fields} if self.fields else {})}

    def difference(self, path: str, items: Sequence[Any]) -> str:
        """What is to be said where the map at ``path`` is given other ``items``; empty where it is not, or where nobody
        can know."""
        now = None if self.scheme != SCHEME else digests_of(items, self.fields)
        if now is None:
            return ""
        if isinstance(self.of, list) and isinstance(now.of, list):
            pairs = enumerate(zip(self.of, now.of, strict=True))
            index = next((index for index, (old, new) in pairs if old and new and old != new), None)
            return "" if index is None else f"{path!r} was begun with another item {index} than the code now gives it."
        if self.of == now.of:
            return ""
        return f"{path!r} was begun with other items, or in another order, than the code now gives it."


def digests_of(items: Sequence[Any], fields: Fields | None = None) -> Digests | None:
    """Digests of these items; None where not one of them can be encoded. ``fields``: of dataclasses, no others."""
    known = {} if fields is None else dict(fields)
    if len(items) > EACH_MAX:
        of: list[str] | str = _digest(list(items), 32, known)
    else:
        of = [_digest(item, 8, known) for item in items]
    return Digests(of, known) if any(of) else None


def _digest(value: Any, digits: int, known: Fields) -> str:
    try:
        text = encode(value)
    except PayloadError:
        return ""
    if any(f'"{MARK}":"{tag}' in text for tag in ("@", *UNTOLD)):
        text = _to_json(_told(json.loads(text), known))
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


_to_json = json.JSONEncoder(separators=(",", ":")).encode


def _told(data: Any, known: Fields) -> Any:
    """What is told of a value, without what makes no other value of it. ``known`` takes up what it has not."""
    if type(data) is list:
        return [_told(item, known) for item in data]
    if type(data) is not dict:
        return data
    tag, held = data.get(MARK), data.get("v")
    if tag is None or type(held) is not dict:
        told = {key: _told(item, known) for key, item in data.items()}
        # Their order is that of the whole texts, of which this may leave something out.
        return {**told, "v": sorted(told["v"], key=_to_json)} if tag in ("set", "frozenset") else told
    if tag.startswith("@"):
        names = known.setdefault(tag, list(held))
        held = {name: held[name] for name in names if name in held}
    return {MARK: tag, "v": {key: _told(item, known) for key, item in held.items() if key not in UNTOLD.get(tag, ())}}
