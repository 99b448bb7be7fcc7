"""Whatever an exception does, there is a description of it, and it can be stored."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest

from django_durable.core.payloads.codec import decode, encode
from django_durable.core.payloads.failures import RELATED_MAX, describe, short
from django_durable.core.unwinding import Unwind


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    try:
        secret = "a local value"
        assert secret
        raise error from cause
    except BaseException as caught:
        return caught


def describe_safely(error: BaseException, **limits: int) -> dict[str, Any]:
    found = describe(error, **limits)
    assert decode(encode(found)) == found
    return found


class Text(str):
    def __getitem__(self, key: Any) -> NoReturn:
        raise RuntimeError

    __len__ = __str__ = __format__ = __getitem__  # type: ignore[assignment]


class Shop(Exception):
    pass


def test_what_is_told() -> None:
    error = raised(Shop("no stock"), KeyError("sku"))
    error.add_note("order 42")
    found = describe_safely(error)
    assert found["type"] == f"{__name__}.Shop"
    assert found["message"] == "no stock"
    assert found["notes"] == ["order 42"]
    assert found["cause"]["type"] == "KeyError"
    assert found["cause"]["message"] == "'sku'"
    assert found["traceback"].startswith("Traceback (most recent call last):\n")
    assert "raise error from cause" in found["traceback"]
    assert found["traceback"].endswith(".Shop: no stock")
    assert "a local value" not in found["traceback"].replace('secret = "a local value"', "")


def test_the_least() -> None:
    assert describe_safely(ValueError("x")) == {"type": "ValueError", "message": "x", "traceback": "ValueError: x"}


def test_the_context_is_told_unless_suppressed() -> None:
    def fail(suppress: bool) -> BaseException:
        try:
            try:
                raise KeyError("first")
            except KeyError:
                if suppress:
                    raise ValueError("second") from None
                raise ValueError("second")  # noqa: B904
        except ValueError as error:
            return error

    assert describe_safely(fail(suppress=False))["cause"]["message"] == "'first'"
    assert "cause" not in describe_safely(fail(suppress=True))


class StrRaises(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class StrExits(Exception):
    def __str__(self) -> str:
        raise SystemExit(1)


class StrRecurses(Exception):
    def __str__(self) -> str:
        return str(self)


class StrIsNone(Exception):
    def __str__(self) -> str:
        return None  # type: ignore[return-value]


class StrIsText(Exception):
    def __str__(self) -> str:
        return Text("from a subclass")


class AttributesRaise(Exception):
    @property
    def __cause__(self) -> NoReturn:  # type: ignore[override]
        raise RuntimeError

    __notes__ = __traceback__ = __cause__


class Reduces(Exception):
    def __reduce__(self) -> NoReturn:
        raise RuntimeError


class BadModule(Exception):
    __module__ = 5  # type: ignore[assignment]
    __qualname__ = "Bad" * 1_000


def test_what_unwinds_a_workflow_is_no_cause() -> None:
    def fail() -> BaseException:
        try:
            try:
                raise Unwind
            except BaseException:
                raise Shop("no stock")  # noqa: B904
        except Shop as error:
            return error

    assert "cause" not in describe_safely(fail())
    assert "cause" not in describe_safely(raised(Shop("no stock"), Unwind()))


@pytest.mark.behaviour("STEP-08b")
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (StrRaises(), "<its str() raised RuntimeError>"),
        (StrExits(), "<its str() raised SystemExit>"),
        (StrRecurses(), "<its str() raised RecursionError>"),
        (StrIsNone(), "<its str() raised TypeError>"),
        (StrIsText(), "from a subclass"),
        (AttributesRaise("x"), "x"),
        (Reduces("x"), "x"),
        (BadModule("x"), "x"),
        (ValueError("a\0b \ud800 \ud83d\ude00"), "a\0b \ud800 \ud83d\ude00"),
        (KeyboardInterrupt(), ""),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), "'utf-8' codec can't decode byte 0xff in position 0: bad"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_exceptions_that_misbehave(error: BaseException, message: str) -> None:
    found = describe_safely(raised(error))
    assert found["message"] == message
    assert found["traceback"]


def test_long_texts_are_cut() -> None:
    error = raised(ValueError("x" * 10_000_000))
    error.add_note("n" * 20_000)
    found = describe_safely(error)
    assert found["message"] == "x" * 10_000 + "… (10,000,000 characters)"
    assert "raise error" in found["traceback"]
    assert len(encode(found)) < 60_000
    assert describe_safely(error, limit_message=3)["message"] == "xxx… (10,000,000 characters)"


def test_a_long_traceback_keeps_its_end() -> None:
    def ping(left: int) -> None:
        pong(left - 1)

    def pong(left: int) -> None:  # two functions: frames that repeat are folded
        if not left:
            raise ValueError("deep")
        ping(left)

    with pytest.raises(ValueError, match="deep") as caught:
        ping(200)
    found = describe_safely(caught.value, limit_traceback=500)["traceback"]
    assert 500 < len(found) < 550
    assert found.endswith('raise ValueError("deep")\nValueError: deep')


def test_endless_recursion() -> None:
    def endless() -> None:
        endless()

    with pytest.raises(RecursionError) as caught:
        endless()
    assert len(describe_safely(caught.value)["traceback"]) < 21_000


def test_cyclic_causes() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    found = describe_safely(first)
    assert found["cause"]["message"] == "second"
    assert "cause" not in found["cause"]


def test_long_chains_are_cut() -> None:
    error: BaseException = ValueError("0")
    for number in range(5_000):
        following = ValueError(str(number))
        following.__cause__ = error
        error = following
    found, count = describe_safely(error), 1
    while "cause" in found:
        found, count = found["cause"], count + 1
    assert count == RELATED_MAX


def test_groups() -> None:
    group = ExceptionGroup("several", [ValueError("a"), ExceptionGroup("inner", [KeyError("b")])])
    found = describe_safely(raised(group))
    assert found["message"] == "several (2 sub-exceptions)"
    assert [member["type"] for member in found["exceptions"]] == ["ValueError", "ExceptionGroup"]
    assert found["exceptions"][1]["exceptions"][0]["message"] == "'b'"
    wide = describe_safely(ExceptionGroup("wide", [ValueError(str(n)) for n in range(1_000)]))
    assert len(wide["exceptions"]) == RELATED_MAX - 1


@pytest.mark.parametrize("notes", [None, 5, "text", [5, Text("kept"), None], ["n"] * 1_000])
def test_odd_notes(notes: Any) -> None:
    error = ValueError("x")
    error.__notes__ = notes
    assert len(describe_safely(error).get("notes", [])) <= 10


def test_short() -> None:
    assert short(ValueError("x")) == "ValueError: x"
    assert len(short(ValueError("x" * 10_000))) < 250
    assert short(StrRaises()) == "StrRaises: <its str() raised RuntimeError>"
