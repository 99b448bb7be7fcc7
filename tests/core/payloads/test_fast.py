"""With orjson and without it the codec writes the same texts, reads the same values and refuses the same with the same
words."""

from __future__ import annotations

import enum
import json
import math
import subprocess
import sys
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from django_durable.core.payloads import fast
from django_durable.core.payloads.codec import decode, encode
from django_durable.core.payloads.tags import MAX_DEPTH, MAX_DIGITS

ROOT = Path(__file__).parents[3]
Point = namedtuple("Point", "x y")
Raw = fast.orjson.Fragment


class Text(str):
    __slots__ = ()


class Number(int):
    pass


class Half(float):
    pass


class Color(enum.Enum):
    RED = "r"


class Name(enum.StrEnum):
    A = "a"


class Level(enum.IntEnum):
    LOW = 1


@dataclass
class Money:
    amount: int = 1


def outcome(do: Callable[[Any], Any], given: Any) -> tuple[str, str]:
    """What came of it, so that -0.0 differs from 0, True from 1, one order of keys from another."""
    try:
        return "done", repr(do(given))
    except Exception as error:
        return type(error).__name__, str(error)


def without(do: Callable[[Any], Any], given: Any) -> tuple[str, str]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fast, "is_there", False)
        return outcome(do, given)


def assert_alike(do: Callable[[Any], Any], given: Any) -> tuple[str, str]:
    found = outcome(do, given)
    assert found == without(do, given)
    return found


def nested(levels: int, wrap: Callable[[Any], Any] = lambda inner: [inner]) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = wrap(value)
    return value


# --- values that come from anywhere ----------------------------------------------------------

texts = st.one_of(
    st.text(st.characters(exclude_categories=()), max_size=6),
    st.sampled_from(
        ["$", 'x"$', '"$":', "\0", "\x7f", "\x1f\b\f", "/<>&", "\u2028", "é", "😀", "\ud800", "\ud83d\ude00"]
    ),
    st.sampled_from(["\\ud83d", "9" * 20, "null", ""]),
)
ints = st.one_of(
    st.integers(),
    st.sampled_from([2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64 - 1, 2**64, 10**19, 2**53 + 1]),
)
edges = [10.0**power for power in range(-8, 24)] + [2.0**power for power in range(-30, 80)]
floats = st.one_of(
    st.floats(),
    st.floats(1e-5, 1e17),
    st.sampled_from([math.nextafter(edge, to) for edge in edges for to in (0, edge, math.inf)]),
    st.sampled_from([0.0, -0.0, 5e-324, math.inf, -math.inf, math.nan, 1e22, 1.7976931348623157e308]),
)
strange = st.sampled_from(
    [
        *(Text("a"), Number(1), Half(0.5), Color.RED, Name.A, Level.LOW),
        *(Money(), Point(1, 2), OrderedDict(a=1), Raw(b"1")),
        *((1, 2), {1, 2}, frozenset({1}), b"a", bytearray(b"a"), memoryview(b"a"), object, 1j, Decimal("1.10")),
        *(UUID(int=1), datetime(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC), date(2024, 1, 1)),
    ]
)
keys = st.one_of(texts, ints, st.none(), st.booleans(), st.sampled_from([Text("k"), Name.A, 1.5, (1,), UUID(int=1)]))
atoms = st.one_of(st.none(), st.booleans(), ints, floats, texts)


def grown(leaves: st.SearchStrategy[Any], keys: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves,
        lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=4)),
        max_leaves=15,
    )


@settings(max_examples=600)
@given(st.one_of(grown(atoms, texts), grown(st.one_of(atoms, strange), keys)))
def test_any_value_has_one_text_or_one_error_and_one_value_again(value: Any) -> None:
    assert_alike(encode, value)
    if (text := without(encode, value))[0] == "done":
        assert_alike(decode, encode(value))
        assert text[1] == repr(encode(value))


@settings(max_examples=600)
@given(floats)
def test_any_float_is_read_as_it_is_written(value: float) -> None:
    assert_alike(encode, [value])
    if math.isfinite(value):
        assert decode(f"[{value!r},{value:.25e},{value:.25f}]") == [value, value, float(f"{value:.25f}")]


pieces = st.sampled_from(
    [
        *'[]{},:"$\\ ue-+.0',
        *("NaN", "Infinity", "nul", '"$"', '"a":', "\\ud800", "\\u0000", "\ud800", "é", "\x7f", "\n", "\ufeff", "\xa0"),
        *("1e400", "1e-400", "-0", "1" * 18, "1" * 19, "-9223372036854775809", "18446744073709551616", "0." + "1" * 30),
    ]
)


@settings(max_examples=800)
@given(
    st.one_of(
        st.lists(st.one_of(pieces, st.text(max_size=2)), max_size=8).map("".join),
        st.lists(pieces, max_size=6).map(lambda items: f"[{','.join(items)}]"),
        grown(atoms, texts).map(lambda value: json.dumps(value, ensure_ascii=False, indent=1)),
    )
)
@example('{"a":1,"b":2,"a":3}')
def test_any_text_has_one_value_or_one_error(text: str) -> None:
    assert_alike(decode, text)


@settings(max_examples=200)
@given(grown(atoms, texts), st.data())
def test_a_damaged_text_has_one_error(value: Any, data: st.DataObject) -> None:
    text = json.dumps(value)
    at = data.draw(st.integers(0, len(text)))
    assert_alike(decode, text[:at] + data.draw(pieces) + text[at + data.draw(st.integers(0, 1)) :])


# --- what orjson is known to do otherwise ----------------------------------------------------

cyclic: list[Any] = [1]
cyclic += [cyclic, {"a": cyclic}] * 500


@pytest.mark.parametrize(
    "value",
    [
        *(nested(levels) for levels in range(30, 36)),
        nested(MAX_DEPTH),
        nested(MAX_DEPTH + 1),
        nested(MAX_DEPTH, lambda inner: {"a": inner}),
        nested(MAX_DEPTH + 1, lambda inner: {"a": inner}),
        nested(254),
        nested(255),
        nested(100_000),
        cyclic,
        {"a": [0, {"price": math.nan}]},
        {"a": [1e-5, 1e-7, 1e16, 1e22]},
        {"a": [10**MAX_DIGITS]},
        {"a": [2**64, -(2**63) - 1]},
        {"a": {"$": "uuid", "v": "x"}},
        {"b": 1, "a": {"d": 1, "c": [True, 1, 1.0]}},
        {"a": [{"b": ["\x7f"]}, "é😀"]},
        {"a": [{"b": ["\ud83d\ude00"]}]},
        {"\ud83d\ude00": 1},
        *({"a": {key: 1}} for key in (Text("b"), Name.A, 1, 1.5, None, True, (1,), UUID(int=1), date(2024, 1, 1))),
        {"a": [(1, 2)]},
        [[Name.A], [Level.LOW], [Money()]],
        [Raw(b"nothing of the kind")],
        ["x" * 100_000, list(range(3000))],
        [[0] * 600 for _ in range(600)],
    ],
)
def test_a_value_that_orjson_would_write_otherwise(value: Any) -> None:
    done, _ = assert_alike(encode, value)
    if done == "done":
        assert_alike(decode, encode(value))


@pytest.mark.parametrize("before", range(10))
@pytest.mark.parametrize("number", ["18446744073709551616", "-9223372036854775809", "9" * 400, "1" * (MAX_DIGITS + 1)])
def test_a_long_int_is_no_float_wherever_it_stands(before: int, number: str) -> None:
    text = f'["{"x" * before}",{number}]'
    assert_alike(decode, text)
    assert_alike(decode, text.replace("x", "é"))


@pytest.mark.parametrize(
    "text", [None, 5, b"1", b"[1]", bytearray(b"1"), memoryview(b"1"), Text("[1]"), "[" * 2000, ""]
)
def test_what_is_no_text_of_the_codec_is_refused_alike(text: Any) -> None:
    assert_alike(decode, text)


def test_the_size_is_capped_alike() -> None:
    assert_alike(lambda value: encode(value, limit=20, root="input"), {"a": ["é" * 3]})
    assert_alike(lambda value: encode(value, limit=21, root="input"), {"a": "b" * 13})


# --- who writes and reads --------------------------------------------------------------------


def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    made: list[str] = []

    class Noted:
        def __getattr__(self, name: str) -> Any:
            made.append(name)
            return getattr(orjson, name)

    orjson = fast.orjson
    monkeypatch.setattr(fast, "orjson", Noted())
    return made


def test_orjson_has_what_is_plain_json(monkeypatch: pytest.MonkeyPatch) -> None:
    made = calls(monkeypatch)
    value = {"orders": [{"id": 1, "total": 19.99, "paid": True, "notes": None}], "tags": ["a", "$5"]}
    assert decode(encode(value)) == value
    assert made == ["dumps", "loads"]


def test_json_has_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    made = calls(monkeypatch)
    for value in ({"at": datetime(2024, 1, 1)}, [(1,)], [2**64, "1" * 19]):
        assert decode(encode(value)) == value
    assert made == ["dumps"]  # of the int, which it refused


WITHOUT = """
import sys
sys.modules["orjson"] = None  # as if it were not installed
from django_durable.core.payloads import fast
from django_durable.core.payloads.codec import decode, encode
value = {"b": [1, 2.5, None, True, "\u00e9", 1e-7, 2**70], "a": {"x": ()}}
assert not fast.is_there and decode(encode(value)) == value
print(encode(value))
"""


def test_nothing_needs_orjson() -> None:
    text = subprocess.check_output([sys.executable, "-c", WITHOUT], cwd=ROOT, text=True).strip()
    assert text == encode({"b": [1, 2.5, None, True, "é", 1e-7, 2**70], "a": {"x": ()}})
