"""Values as text: JSON with a fixed set of tags. A value comes back exactly, or is refused with the path to it.

What JSON says exactly stays plain JSON. Everything else is ``{"$": tag, "v": data}`` (see ``tags``), and so is a dict
that JSON would change (keys that are not strings) or that has a key ``"$"`` itself. The text is ASCII: databases that
refuse NUL or lone surrogates never see them.

Exact types only: a subclass would come back as its base, so it is refused. What is *not* kept is identity: two
references to one list come back as two lists. Sets are written sorted, so that equal sets give equal texts.
"""

from __future__ import annotations

import json
import sys
from math import isfinite
from types import NoneType
from typing import Any, NoReturn

from ...exceptions import PayloadError, PayloadUndecodable
from . import fast
from .failures import short
from .locating import locate
from .refusals import Refusal
from .tags import MARK, MAX_DEPTH, MAX_DIGITS, exact_atom, has_split_character, revive, tagged

_STR = frozenset({str})
_ATOMS = frozenset({NoneType, bool, int, float, str})
"""What goes to the C encoder as it is. For the few such values that JSON gets wrong, ``encode`` looks again."""
_CERTAIN_ATOMS = frozenset({NoneType, bool})

_to_json = json.JSONEncoder(allow_nan=False, check_circular=False, separators=(",", ":")).encode


def encode(value: object, *, limit: int | None = None, root: str = "value") -> str:
    """ASCII JSON text from which ``decode`` makes the same value again: type, value, order.

    ``limit`` is the largest size in bytes, ``root`` the name of the value in the path of an error.
    Raises ``PayloadError``, and nothing else, for what cannot come back exactly or is too large.
    """
    try:
        text = fast.written(value, _to_json) if fast.is_there else None
        if text is None:
            text = _written(value)
    except (
        Exception
    ):  # of a hostile class anything: its metaclass, or a key that it is, is asked for hashes and equality
        text = _encode_or_explain(value, root)
    if limit is not None and len(text) > limit:
        raise PayloadError(
            root,
            f"takes {len(text):,} bytes as JSON and the cap is {limit:,}. "
            "Keep large data in a file or table of its own and pass a reference to it.",
        )
    return text


def decode(text: str) -> Any:
    """The value that ``encode`` was given. Raises ``PayloadUndecodable``, and nothing else, for any other text."""
    try:
        # Without the marker there is no tag, and no Python runs for each dict. A single character is found far sooner.
        if "$" in text and '"$"' in text:
            return _decode_tagged(text)
        return fast.read(text, _decode_plain) if fast.is_there else _decode_plain(text)
    except PayloadUndecodable:
        raise
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise PayloadUndecodable(f"damaged text ({short(error)})") from error


def first_of(text: str) -> Any:
    """The first item of the list that ``text`` encodes, a str or an int. Nothing else of it is decoded: it may be long,
    or of a type that this code does not know. Raises ``PayloadUndecodable`` where there is none."""
    try:
        return _first(text, 1)[0]
    except (ValueError, IndexError, RecursionError) as error:
        raise PayloadUndecodable(f"damaged text ({short(error)})") from error


def items_of(text: str) -> list[str]:
    """The items of the list that ``text`` encodes, each as its own text: none of them is decoded. Raises as above."""
    try:
        items = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PayloadUndecodable(f"damaged text ({short(error)})") from error
    if type(items) is not list:
        raise PayloadUndecodable("no list")
    return [_to_json(item) for item in items]


def is_plain(value: object) -> bool:
    """Whether ``decode(encode(value))`` is known to be the value: an exact None, bool, int, str or finite float."""
    kind = type(value)
    return kind in _ATOMS and (kind is not float or isfinite(value))  # type: ignore[arg-type]


# --- encoding --------------------------------------------------------------------------------


def _written(value: Any) -> str:
    text = _to_json(_plain(value, 0, _ATOMS))
    if _is_doubtful(text):
        text = _to_json(_plain(value, 0, _CERTAIN_ATOMS))
    return text


def _plain(value: Any, depth: int, atoms: frozenset[type]) -> Any:
    """The value in terms of JSON; the same object where nothing has to change. Raises ``Refusal``."""
    kind = type(value)
    if kind in atoms:
        return value
    if kind in _ATOMS:
        return exact_atom(value)
    if depth >= MAX_DEPTH:
        raise Refusal(f"is nested more than {MAX_DEPTH} levels deep")
    if kind is list:
        if atoms.issuperset(map(type, value)):
            return value
        return [_plain(item, depth + 1, atoms) for item in value]
    if kind is dict and _is_json_object(value, atoms):
        if atoms.issuperset(map(type, value.values())):
            return value
        return {key: _plain(item, depth + 1, atoms) for key, item in value.items()}
    return _tag(value, depth, atoms)


def _tag(value: Any, depth: int, atoms: frozenset[type]) -> dict[str, Any]:
    tag, data = tagged(value)
    data = _plain(data, depth + 1, atoms)
    if tag in ("set", "frozenset"):
        data = sorted(data, key=_to_json)
    return {MARK: tag, "v": data}


def _is_json_object(value: dict[Any, Any], atoms: frozenset[type]) -> bool:
    if MARK in value or not _STR.issuperset(map(type, value)):
        return False
    return atoms is _ATOMS or not any(map(has_split_character, value))


def _is_doubtful(text: str) -> bool:
    """Whether a str may hold a character in two halves, or an int be longer than another process would read."""
    return "\\ud" in text or (len(text) > MAX_DIGITS and sys.get_int_max_str_digits() != MAX_DIGITS)


def _encode_or_explain(value: object, root: str) -> str:
    try:
        return _to_json(_strict(value, 0))
    except Refusal:
        _explain(value, root)
    except RecursionError:
        raise PayloadError(root, "is nested more deeply than the stack has room for") from None
    except (ValueError, RuntimeError) as error:
        raise PayloadError(root, f"cannot be written: {error}") from error
    except Exception as error:
        raise PayloadError(root, f"cannot be stored: {short(error)}") from error


def _explain(value: object, root: str) -> NoReturn:
    try:
        path, reason = locate(value, root, _strict)
    except RecursionError:
        path, reason = root, "has a part that cannot be stored, nested too deeply to say where"
    except Exception as error:
        path, reason = root, f"has a part that cannot be stored: {short(error)}"
    raise PayloadError(path, reason) from None


def _strict(value: object, depth: int) -> Any:
    return _plain(value, depth, _CERTAIN_ATOMS)


# --- decoding --------------------------------------------------------------------------------


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _revive(data: dict[str, Any]) -> Any:
    if MARK not in data:
        return data
    tag = data[MARK]
    if type(tag) is not str or len(data) != 2 or "v" not in data:
        raise PayloadUndecodable("a damaged tag")
    return revive(tag, data["v"])


_decode_plain = json.JSONDecoder(parse_constant=_refuse_constant).decode
_first = json.JSONDecoder(parse_constant=_refuse_constant).raw_decode
_decode_tagged = json.JSONDecoder(parse_constant=_refuse_constant, object_hook=_revive).decode
