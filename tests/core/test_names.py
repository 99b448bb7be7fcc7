"""Names and keys, and that two different ones never make one path."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum, StrEnum
from functools import partial
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from django.utils.translation import gettext_lazy
from hypothesis import given
from hypothesis import strategies as st

from django_durable.core.names import NAME_MAX, PATH_MAX, check_name, make_path
from django_durable.exceptions import InvalidKey, InvalidName
from django_durable.workflows.options import StartOptions

NAMES = st.text(st.sampled_from("ab%/[]25F "), min_size=1, max_size=6).filter(str.strip)
KEYS = st.none() | NAMES


def test_a_plain_path() -> None:
    assert make_path("", "charge card") == "charge card"
    assert make_path("import/", "save", 17) == "import/save[17]"
    assert make_path("", "größe 🙂 \u202e") == "größe 🙂 \u202e"


def test_joiners_are_escaped() -> None:
    assert make_path("", "a/b") == "a%2Fb"
    assert make_path("a/", "b") == "a/b"
    assert make_path("", "a[1]") == "a%5B1%5D"
    assert make_path("", "a", 1) == "a[1]"
    assert make_path("", "100%") == "100%25"
    assert make_path("", "a%2Fb") == "a%252Fb"
    assert make_path("", "a", "x]/y") == "a[x%5D%2Fy]"


CALL = st.tuples(NAMES, KEYS)


@given(CALL, CALL, CALL, CALL)
def test_different_names_never_collide(
    a: tuple[str, str | None], b: tuple[str, str | None], c: tuple[str, str | None], d: tuple[str, str | None]
) -> None:
    """``b`` in the scope ``a`` and ``d`` in the scope ``c``: one path only if all four parts are the same."""

    def path(scope: tuple[str, str | None], inside: tuple[str, str | None]) -> str:
        return make_path(make_path("", *scope) + "/", *inside)

    assert (path(a, b) == path(c, d)) == ((a, b) == (c, d))
    assert (make_path("", *a) == make_path("", *c)) == (a == c)
    assert path(a, b) != make_path("", *c)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "is empty"),
        (" \t", "is empty"),
        ("\u3000", "is empty"),
        ("x" * (NAME_MAX + 1), "is longer than 200 characters"),
        ("a\0b", "has control characters or lone surrogates"),
        ("a\nb", "has control characters"),
        ("a\x7f", "has control characters"),
        ("a\ud800", "has control characters or lone surrogates"),
        (None, "must be a string, not NoneType"),
        (5, "must be a string, not int"),
        (b"a", "must be a string, not bytes"),
        (["a"], "must be a string, not list"),
    ],
)
def test_names_that_are_refused(name: Any, reason: str) -> None:
    with pytest.raises(InvalidName, match=reason) as caught:
        check_name("event", name)
    assert caught.value.what == "event"
    assert caught.value.name is name


@pytest.mark.parametrize("name", ["", "a\nb", None, 5, ["a"]])
def test_paths_are_made_of_good_names_only(name: Any) -> None:
    with pytest.raises(InvalidName):
        make_path("", name)


def test_the_longest_name() -> None:
    assert check_name("tag", "x" * NAME_MAX) == "x" * NAME_MAX


@pytest.mark.parametrize("key", ["", "  ", "a\nb", "x" * (NAME_MAX + 1)])
def test_keys_that_are_refused(key: str) -> None:
    with pytest.raises(InvalidName) as caught:
        make_path("", "a", key)
    assert caught.value.what == "key"


class Colour(Enum):
    RED = 1


class Size(StrEnum):
    LARGE = "large"


class Translated(Enum):
    ORDER = "order"
    ITS_OWN = object()

    def __str__(self) -> str:
        return f"in the reader's words, at {id(self):#x}"


class Nowhere(tzinfo):
    def utcoffset(self, at: datetime | None) -> timedelta:
        return timedelta(0)


class Money(Decimal):
    def __repr__(self) -> str:
        return f"<money at {id(self):#x}>"


NOON = datetime(2024, 5, 1, 12)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (0, "0"),
        (False, "False"),
        (1.5, "1.5"),
        ((1, "b"), "(1, 'b')"),
        (Decimal("1.50"), "1.50"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (date(2024, 5, 1), "2024-05-01"),
        (datetime(2024, 5, 1, tzinfo=UTC), "2024-05-01 00:00:00+00:00"),
        (timedelta(1), "1 day, 0:00:00"),
        (Colour.RED, "Colour.RED"),
        (Size.LARGE, "large"),
        pytest.param(Translated.ORDER, "order", id="translated"),
        ((1, Size.LARGE), "(1, 'large')"),
        ((True, (NOON, UUID(int=1))), f"(True, ({NOON!r}, {UUID(int=1)!r}))"),
        ((time(12, tzinfo=UTC),), "(datetime.time(12, 0, tzinfo=datetime.timezone.utc),)"),
        ((time(12, tzinfo=ZoneInfo("UTC")),), "(datetime.time(12, 0, tzinfo=zoneinfo.ZoneInfo(key='UTC')),)"),
    ],
)
def test_keys_are_their_text(key: object, text: str) -> None:
    assert make_path("", "a", key) == f"a[{text}]"


@pytest.mark.parametrize(
    "key",
    [
        object(),
        frozenset("ab"),
        [1],
        {"a": 1},
        b"a",
        (1, object()),
        gettext_lazy("a"),
        len,
        pytest.param(Translated.ITS_OWN, id="translated"),
        (1, (NOON.replace(tzinfo=Nowhere()),)),
        (time(12, tzinfo=Nowhere()),),
        (Money(1),),
    ],
)
def test_keys_whose_text_does_not_last_are_refused(key: object) -> None:
    """An address or the order of a set is another one in the next process: the step would run again."""
    for use in (partial(make_path, "", "a"), lambda key: StartOptions(key=key)):
        with pytest.raises(InvalidKey, match="Pass an id, or a string") as caught:
            use(key)
        assert isinstance(caught.value, TypeError) and "0x" not in str(caught.value)


def test_long_paths_are_refused() -> None:
    fits = "x" * (PATH_MAX - 2) + "/"
    assert len(make_path(fits, "a")) == PATH_MAX
    with pytest.raises(InvalidName, match="longer than 500 characters"):
        make_path(fits, "ab")


def test_messages_are_short() -> None:
    with pytest.raises(InvalidName) as caught:
        check_name("event", "x" * 1_000_000)
    assert len(str(caught.value)) < 200
