"""Every value comes back exactly or is refused with its path; any other text is refused as undecodable."""

from __future__ import annotations

import contextlib
import enum
import functools
import importlib.resources
import inspect
import json
import math
import struct
import subprocess
import sys
from collections import Counter, OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from django_durable.core.payloads.codec import decode, encode, first_of, is_plain, items_of
from django_durable.core.payloads.durable_type import durable_type
from django_durable.core.payloads.tags import MAX_DEPTH, MAX_DIGITS, register_tag
from django_durable.exceptions import PayloadError, PayloadUndecodable

BERLIN = ZoneInfo("Europe/Berlin")


@durable_type("tests.color")
class Color(enum.Enum):
    RED = "r"
    CRIMSON = "r"
    BLUE = object()


@durable_type("tests.level")
class Level(enum.IntEnum):
    LOW = 1


@durable_type("tests.rights")
class Rights(enum.Flag):
    READ = 1
    WRITE = 2


@durable_type("tests.money")
@dataclass(frozen=True, slots=True)
class Money:
    amount: Decimal
    currency: str = "EUR"


@durable_type("tests.basket")
@dataclass
class Basket:
    lines: list[Money]
    color: Color = Color.RED
    notes: dict[Any, Any] = field(default_factory=dict)
    total: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.total += 1

    @functools.cached_property
    def size(self) -> int:
        return len(self.lines)


def assert_same(one: Any, other: Any) -> None:
    """Equal down to what ``==`` does not see."""
    assert type(one) is type(other)
    if is_dataclass(one):
        one, other = ([getattr(part, f.name) for f in fields(one)] for part in (one, other))
    if isinstance(one, dict):
        one, other = list(one.items()), list(other.items())
    if isinstance(one, set | frozenset):
        one, other = sorted(one, key=encode), sorted(other, key=encode)
    if isinstance(one, list | tuple):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            assert_same(left, right)
    else:
        assert details(one) == details(other)


def details(value: Any) -> Any:
    if isinstance(value, float):
        return struct.pack(">d", value)
    if isinstance(value, Decimal):
        return value.as_tuple()
    if isinstance(value, datetime | time):
        zone = value.tzinfo
        return value.replace(tzinfo=None), value.fold, type(zone), zone_details(zone)
    return value


def zone_details(zone: tzinfo | None) -> Any:
    return zone.key if isinstance(zone, ZoneInfo) else zone and (zone.utcoffset(None), zone.tzname(None))


def assert_round_trip(value: Any) -> None:
    text = encode(value)
    assert text.isascii()
    assert "\0" not in text
    assert_same(decode(text), value)
    assert encode(decode(text)) == text


# --- what comes back -------------------------------------------------------------------------

offsets = st.timedeltas(timedelta(hours=-23), timedelta(hours=23))
fixed_zones = st.one_of(
    st.just(UTC), offsets.map(timezone), st.builds(timezone, offsets, st.sampled_from(["CET", "", "Ü"]))
)
zones = st.one_of(st.none(), fixed_zones, st.sampled_from([BERLIN, ZoneInfo("UTC"), ZoneInfo("Australia/Lord_Howe")]))
folds = st.integers(0, 1)
any_text = st.text(st.characters(exclude_categories=()), max_size=8)
texts = st.one_of(
    any_text, st.sampled_from(["$", "v", "\0", "\ud83d\ude00", "😀", "\ude00\ud83d", "a\ud800", "\\ud83d"])
)
hashable_atoms = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    texts,
    st.binary(max_size=8),
    st.decimals(allow_nan=False),  # a signaling NaN has no hash
    st.uuids(),
    st.dates(),
    st.timedeltas(),
    st.builds(lambda moment, zone, fold: moment.replace(tzinfo=zone, fold=fold), st.datetimes(), zones, folds),
    st.builds(lambda moment, zone, fold: moment.replace(tzinfo=zone, fold=fold), st.times(), zones, folds),
    st.sampled_from([*Color, *Level, Rights(0), Rights.READ, Rights.READ | Rights.WRITE]),
    st.builds(Money, st.decimals(allow_nan=False), texts),
)
hashables = st.recursive(
    hashable_atoms,
    lambda inner: st.one_of(st.lists(inner, max_size=3).map(tuple), st.frozensets(inner, max_size=3)),
    max_leaves=4,
)
values = st.recursive(
    st.one_of(hashables, st.decimals()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(texts, inner, max_size=4),
        st.dictionaries(hashables, inner, max_size=3),
        st.sets(hashables, max_size=3),
        st.builds(
            Basket, st.lists(st.builds(Money, st.decimals(), texts), max_size=2), notes=st.dictionaries(texts, inner)
        ),
    ),
    max_leaves=12,
)


@settings(max_examples=400)
@given(values)
def test_any_value_comes_back_exactly(value: Any) -> None:
    assert_round_trip(value)


@pytest.mark.parametrize(
    "value",
    [
        None,
        "a\0b",
        "\ud800",
        "\ud83d\ude00",
        "x\ud83d\ude00\0y\ud83d\ude00",
        "😀",
        ["\ud83d", "\ude00"],
        {"\ud83d\ude00": 1},
        {"😀": {"\ud83d\ude00": "\ud83d\ude00"}},
        float("nan"),
        -float("nan"),
        struct.unpack(">d", bytes.fromhex("7ff8000000000001"))[0],
        [float("inf"), -float("inf"), -0.0, 0.0, 5e-324, 1e22],
        (1, [2, (3,)]),
        {1: "a", "1": "b", None: "c", (1, 2): "d", 1.5: "e"},
        {True: 1},
        {"$": "uuid", "v": "nothing of the kind"},
        {"$": 1, "deep": {"$": {"$": 2}}},
        {"b": 1, "a": 2},
        {},
        [],
        set(),
        frozenset({frozenset()}),
        {1, "1", 1.5, None, (1,)},
        Decimal("1E+2"),
        Decimal("100"),
        Decimal("-0.00"),
        Decimal("sNaN123"),
        Decimal("-Infinity"),
        10 ** (MAX_DIGITS - 1),
        -(10**MAX_DIGITS - 1),
        UUID(int=0),
        b"\x00\xff",
        timedelta(microseconds=-1),
        timedelta.max,
        date.min,
        datetime.max,
        datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=BERLIN),
        datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN),
        datetime(2024, 1, 1, fold=1),
        datetime(2024, 1, 1, fold=1, tzinfo=UTC),
        datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=1), "CET")),
        datetime(2024, 1, 1, tzinfo=timezone(timedelta(0), "UTC")),
        datetime(2024, 1, 1, tzinfo=timezone(timedelta(microseconds=-1))),
        datetime(2024, 1, 1, tzinfo=ZoneInfo("UTC")),
        time(12, tzinfo=BERLIN, fold=1),
        time(12, tzinfo=UTC),
        Color.CRIMSON,
        Level.LOW,
        Rights.READ | Rights.WRITE,
        Rights(0),
        Money(Decimal("1.10")),
        {Money(Decimal(1)): {Color.RED}},
    ],
    ids=lambda value: repr(value)[:40].encode("ascii", "backslashreplace").decode(),
)
def test_corpus(value: Any) -> None:
    assert_round_trip(value)


def test_plain_values_stay_plain_json() -> None:
    value = {"b": [1, 2.5, None, True, "é"], "a": {"x": {}}}
    assert encode(value) == json.dumps(value, separators=(",", ":"))


def test_encoding_does_not_change_the_value() -> None:
    value = {"at": datetime(2024, 1, 1), "tags": {"b", "a"}, "list": [(1,)]}
    encode(value)
    assert value == {"at": datetime(2024, 1, 1), "tags": {"a", "b"}, "list": [(1,)]}


def test_equal_sets_give_equal_texts_in_every_process() -> None:
    code = "from django_durable.core.payloads.codec import encode; print(encode([set('abcdefgh'), {b'x', b'y', b'z'}]))"
    run = [sys.executable, "-c", code]
    root = Path(__file__).parents[3]
    found = {subprocess.check_output(run, cwd=root, env={"PYTHONHASHSEED": seed}) for seed in ("1", "2")}
    assert len(found) == 1


def test_dataclasses_come_back_without_running_their_code() -> None:
    basket = Basket([Money(Decimal(1))])
    assert basket.total == 1
    assert basket.size == 1  # what a cached_property left behind is derived, and no reason to refuse
    again = decode(encode(basket))
    assert (again.total, again.lines, "size" in vars(again)) == (1, basket.lines, False)


# --- what is refused, where, and why ---------------------------------------------------------

Point = namedtuple("Point", "x y")


class Text(str):
    __slots__ = ()


class Plain(enum.Enum):
    A = 1


class WithTwist(datetime):
    pass


class OtherZone(tzinfo):
    def utcoffset(self, moment: datetime | None) -> timedelta:
        return timedelta(0)

    dst = utcoffset

    def tzname(self, moment: datetime | None) -> str:
        return "other"


class Lazy:
    @property  # type: ignore[misc]
    def __class__(self) -> type:
        raise RuntimeError("evaluated")


LazyTranslation = type("__proxy__", (), {"__str__": lambda self: "translated"})


class Model:
    _meta = pk = None


@dataclass
class Unregistered:
    inner: Any = None


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


cyclic_list: list[Any] = [1]
cyclic_list.append({"again": cyclic_list})
cyclic_basket = Basket([])
cyclic_basket.notes["self"] = cyclic_basket


@pytest.mark.parametrize(
    ("value", "path", "reason"),
    [
        ({"items": [0, {"price": object()}]}, "value['items'][1]['price']", "object cannot be stored"),
        ([Basket([Money(Fraction(1))])], "value[0].lines[0].amount", "Fraction cannot be stored"),  # type: ignore[arg-type]
        ({"a": (1, {2, Text("x")})}, "value['a'][1]{…}", "plain str"),
        ({(1, Text("x")): 1}, "value.keys(){<tuple>}[1]", "plain str"),
        ({1: {2: Text("x")}}, "value[1][2]", "plain str"),
        ({"x" * 100: object()}, f"value['{'x' * 60}'…]", "object"),
        ({Text("k"): 1}, "value.keys(){<Text>}", "plain str"),
        (OrderedDict(a=1), "value", "collections.OrderedDict cannot be stored; it would come back as a plain dict"),
        (defaultdict(int), "value", "plain dict"),
        (Counter(), "value", "plain dict"),
        (Point(1, 2), "value", "plain tuple"),
        (Plain.A, "value", "@durable_type"),
        (Unregistered(object()), "value", "@durable_type"),
        (WithTwist(2024, 1, 1), "value", "WithTwist"),
        (datetime(2024, 1, 1, tzinfo=OtherZone()), "value", "zoneinfo.ZoneInfo"),
        (Model(), "value", "Model cannot be stored; pass its primary key"),
        (LazyTranslation(), "value", "call str() on it"),
        ([Lazy()], "value[0]", "Lazy cannot be stored"),
        (bytearray(b"x"), "value", "convert it to bytes"),
        (range(3), "value", "convert it to a list"),
        ((x for x in "ab"), "value", "convert it to a list"),
        (Path("/"), "value", "convert it to a str"),
        (ValueError("x"), "value", "store str(error)"),
        (len, "value", "builtin_function_or_method"),
        (int, "value", "type cannot be stored"),
        (1j, "value", "complex"),
        ([0, 10**MAX_DIGITS], "value[1]", "4,300 digits"),
        ({-(10**MAX_DIGITS): 0}, "value.keys(){<int>}", "4,300 digits"),
        (cyclic_list, "value[1]['again']", "contains itself"),
        (cyclic_basket, "value.notes['self']", "contains itself"),
        (nested(MAX_DEPTH + 1), "value[0]", "200 levels"),
        (nested(100_000), "value[0]", "200 levels"),
    ],
)
def test_refused(value: Any, path: str, reason: str) -> None:
    with pytest.raises(PayloadError) as caught:
        encode(value)
    assert caught.value.path.startswith(path)
    assert caught.value.path == path or "200 levels" in reason
    assert reason in caught.value.reason


def test_what_is_deepest_comes_back() -> None:
    assert_round_trip(nested(MAX_DEPTH))
    tuples: Any = ()
    for _ in range(MAX_DEPTH // 2 - 1):
        tuples = (tuples,)
    assert_round_trip(tuples)
    with pytest.raises(PayloadError):
        encode((tuples,))


def test_a_deep_caller_gets_a_payload_error() -> None:
    value = nested(150)

    def outcome(frames: int) -> str:
        if frames:
            return outcome(frames - 1)
        try:
            encode(value)
        except PayloadError as error:
            return error.reason
        return "encoded"

    room = sys.getrecursionlimit() - len(inspect.stack(0))
    assert "the stack" in outcome(room - 100)
    assert outcome(100) == "encoded"


def test_an_int_limit_of_ones_own_does_not_make_unreadable_texts() -> None:
    usual = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        with pytest.raises(PayloadError, match="4,300 digits"):
            encode({"n": 10**MAX_DIGITS})
        assert_round_trip({"n": 10**MAX_DIGITS - 1})
    finally:
        sys.set_int_max_str_digits(usual)


def test_size_is_capped_in_bytes() -> None:
    assert encode("é", limit=8) == '"\\u00e9"'
    with pytest.raises(PayloadError, match=r"^result of step 'x': takes 8 bytes as JSON and the cap is 7\."):
        encode("é", limit=7, root="result of step 'x'")


def test_a_zone_of_a_file_of_ones_own_is_refused() -> None:
    with importlib.resources.files("tzdata.zoneinfo").joinpath("UTC").open("rb") as file:
        zone = ZoneInfo.from_file(file, key="Europe/Berlin")
    with pytest.raises(PayloadError):
        encode(datetime(2024, 1, 1, tzinfo=zone))
    assert_round_trip(datetime(2024, 1, 1, tzinfo=ZoneInfo.no_cache("Europe/Berlin")))


def test_state_outside_the_fields_is_refused() -> None:
    basket = Basket([])
    basket.extra = 1  # type: ignore[attr-defined]
    with pytest.raises(PayloadError, match="'extra' is not a field"):
        encode(basket)


def test_an_unset_field_is_refused() -> None:
    with pytest.raises(PayloadError, match="AttributeError"):
        encode(object.__new__(Money))


# --- registering -----------------------------------------------------------------------------


def test_names_are_taken_once() -> None:
    with pytest.raises(ValueError, match="taken by"):
        durable_type("tests.money")(Color)
    with pytest.raises(ValueError, match="registered already"):
        durable_type("tests.other")(Money)
    with pytest.raises(ValueError, match="taken by"):
        register_tag("uuid", Fraction, str, Fraction)
    assert durable_type("tests.money")(Money) is Money


def test_a_reloaded_class_replaces_the_old_one() -> None:
    def make() -> type[Any]:
        @durable_type("tests.reloaded")
        @dataclass
        class Reloaded:
            x: int = 0

        return Reloaded

    old, new = make(), make()
    assert type(decode(encode(new()))) is new
    with pytest.raises(PayloadError):
        encode(old())


@pytest.mark.parametrize("name", ["", "a\0", "\ud800", "x" * 201])
def test_bad_names(name: str) -> None:
    with pytest.raises(ValueError, match="printable"):
        durable_type(name)


def test_only_dataclasses_and_enums() -> None:
    class Child(Basket):
        pass

    @dataclass
    class Odd(dict):  # type: ignore[type-arg]
        x: int = 0

    for cls in (int, Child, Odd, Point, "Money"):
        with pytest.raises(TypeError):
            durable_type("tests.bad")(cls)  # type: ignore[type-var]
    with pytest.raises(TypeError, match="needs a name"):
        durable_type(Basket)  # type: ignore[arg-type]


def test_a_tag_of_an_upper_layer() -> None:
    class Ref:
        def __init__(self, label: str, pk: Any) -> None:
            self.label, self.pk = label, pk

    register_tag("tests.ref", Ref, lambda ref: (ref.label, ref.pk), lambda data: Ref(*data))
    key = uuid4()
    again = decode(encode([Ref("shop.order", key)]))[0]
    assert (type(again), again.label, again.pk) == (Ref, "shop.order", key)
    with pytest.raises(PayloadError) as caught:
        encode([Ref("shop.order", object())])
    assert caught.value.path == "value[0][1]"


def test_a_tag_whose_functions_raise() -> None:
    class Bad:
        pass

    class Worse(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def fail(value: Any) -> Any:
        raise Worse

    register_tag("tests.failing", Bad, fail, fail)
    with pytest.raises(PayloadError, match="Bad cannot be stored: Worse"):
        encode(Bad())
    with pytest.raises(PayloadUndecodable, match="Worse"):
        decode('{"$":"tests.failing","v":1}')


# --- what cannot be read ---------------------------------------------------------------------


def tag(name: str, data: Any) -> str:
    return json.dumps({"$": name, "v": data})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "nul",
        "1 2",
        "NaN",
        "[Infinity]",
        "'a'",
        "\ufeff1",
        "[" * 100_000,
        '{"$":"tuple","v":' * 100_000,
        "1" * (MAX_DIGITS + 1),
        '{"$":"uuid"}',
        '{"$":"uuid","w":1}',
        '{"$":"uuid","v":1,"x":2}',
        '{"$":["uuid"],"v":1}',
        '{"$":null,"v":1}',
        tag("os.system", "ls"),
        tag("@tests.gone", {}),
        tag("uuid", 1),
        tag("uuid", "x"),
        tag("bytes", "é"),
        tag("bytes", "a"),
        tag("decimal", "x"),
        tag("decimal", 1.5),
        tag("float", "1.5"),
        tag("float", []),
        tag("float", "3ff0000000000000"),
        tag("float", "7ff8"),
        tag("str", ["a", 1]),
        tag("str", "ab"),
        tag("tuple", {"a": 1}),
        tag("tuple", "ab"),
        tag("set", [[1]]),
        tag("set", [1, 1]),
        tag("frozenset", [1, True]),
        tag("dict", [[1, 2], [1, 3]]),
        tag("dict", ["ab"]),
        tag("dict", {"a": 1}),
        tag("dict", [[[], 1]]),
        tag("datetime", "yesterday"),
        tag("datetime", ["2024-01-01", 0, "Mars/Base"]),
        tag("datetime", ["2024-01-01", 0, "../../etc/passwd"]),
        tag("datetime", ["2024-01-01", 0, "America"]),
        tag("datetime", ["2024-01-01", 2, None]),
        tag("datetime", ["2024-01-01", 0, [10**30, None]]),
        tag("datetime", ["2024-01-01", 0, [0, 5]]),
        tag("datetime", ["2024-01-01T00:00+01:00", 0, None]),
        tag("datetime", ["2024-01-01", 0]),
        tag("date", None),
        tag("time", 5),
        tag("timedelta", [10**12, 0, 0]),
        tag("timedelta", [1.5, 0, 0]),
        tag("@tests.color", "GREEN"),
        tag("@tests.color", []),
        tag("@tests.rights", 8),
        tag("@tests.rights", "READ"),
        tag("@tests.money", []),
        tag("@tests.money", {"currency": "EUR"}),
        tag("@tests.money", {"amount": 1, "vat": 2}),
        None,
        b"1",
        5,
    ],
    ids=lambda text: repr(text)[:50].encode("ascii", "backslashreplace").decode(),
)
def test_undecodable(text: Any) -> None:
    with pytest.raises(PayloadUndecodable) as caught:
        decode(text)
    assert len(str(caught.value)) < 500


def test_reasons_are_clear() -> None:
    for text, reason in [
        (tag("@tests.money", {"amount": 1, "vat": 2}), "Money has no field 'vat'"),
        (tag("@tests.money", {"currency": "EUR"}), "the field 'amount' is missing and has no default"),
        (tag("@tests.gone", {}), "no class is registered as 'tests.gone'"),
    ]:
        with pytest.raises(PayloadUndecodable, match=reason):
            decode(text)


def test_a_new_field_with_a_default_reads_old_payloads() -> None:
    assert decode(tag("@tests.money", {"amount": 1})) == Money(1)  # type: ignore[arg-type]
    old: Basket = decode(tag("@tests.basket", {"lines": []}))
    assert (old.color, old.notes, old.total) == (Color.RED, {}, 0)


NAMES = ["datetime", "date", "time", "timedelta", "decimal", "uuid", "bytes", "set", "frozenset", "tuple", "dict"]
NAMES += ["float", "str", "@tests.money", "@tests.color", "@tests.rights", "@tests.basket", "none"]
any_json = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), any_text, st.just("2024-01-01")),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(["$", "v", "amount", "lines", ""]), inner, max_size=3),
        st.fixed_dictionaries({"$": st.sampled_from(NAMES), "v": inner}),
    ),
    max_leaves=10,
)


@settings(max_examples=400)
@given(st.one_of(st.text(max_size=20), any_json.map(json.dumps)))
@example('{"$":"decimal","v":"1e999999999999999999999"}')
def test_any_text_decodes_or_is_refused(text: str) -> None:
    try:
        value = decode(text)
    except PayloadUndecodable:
        return
    assert_same(decode(encode(value)), value)


@settings(max_examples=200)
@given(values.map(encode), st.data())
def test_a_damaged_text_decodes_or_is_refused(text: str, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(text)))
    damaged = text[:position] + data.draw(st.sampled_from(["", "0", '"', "[", "}", ",", "\\"])) + text[position + 1 :]
    with contextlib.suppress(PayloadUndecodable):
        decode(damaged)


# --- is_plain --------------------------------------------------------------------------------


@given(values)
def test_plain_values_need_no_decoding(value: Any) -> None:
    if is_plain(value):
        assert_same(decode(encode(value)), value)
        assert type(value) in (type(None), bool, int, float, str)
    else:
        assert type(value) not in (type(None), bool, int, str)
        assert type(value) is not float or not math.isfinite(value)


# --- a part of a value -----------------------------------------------------------------------


UNKNOWN = '{"$":"@of.another.release","v":[1.5,"\\ud83d\\ude00","\\ud800"]}'


@pytest.mark.parametrize("first", ["name", "\U0001f600", 17, -1])
def test_the_first_item_of_a_list_is_read_whatever_follows(first: str | int) -> None:
    assert first_of(f"[{encode(first)},{UNKNOWN}]") == first


def test_the_items_of_a_list_are_the_texts_that_they_were() -> None:
    assert items_of(f"[7,{UNKNOWN},null]") == ["7", UNKNOWN, "null"]


@pytest.mark.parametrize("text", ["", "[", "[]", "nonsense", "[" * 100_000, "[NaN]"])
def test_a_part_of_a_damaged_text_is_refused_as_the_whole_is(text: str) -> None:
    with pytest.raises(PayloadUndecodable):
        first_of(text)


@pytest.mark.parametrize("text", ["", "[", "{}", "1", "nonsense", "[" * 100_000])
def test_what_is_no_list_has_no_items(text: str) -> None:
    with pytest.raises(PayloadUndecodable):
        items_of(text)
