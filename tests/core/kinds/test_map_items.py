"""By what a map knows its items again: what makes others of them, and what does not."""

from __future__ import annotations

from dataclasses import make_dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from django_durable import Event, Outcome, durable_type
from django_durable.core.context import Context
from django_durable.core.flow.effects import Spawn
from django_durable.core.journal.digests import EACH_MAX, SCHEME, digests_of
from django_durable.core.journal.outcomes import Blocked, Failed, Suspended
from django_durable.core.kinds.events import Answer
from django_durable.exceptions import PayloadUndecodable
from tests.core.driving import NOON, World


class Given:
    """A run whose code maps ``items``, and waits after that for ever."""

    def __init__(self, *items: Any) -> None:
        self.world, self.items = World(), list(items)
        assert self.world.attempt(self.body) == Suspended("event:go")

    def body(self, ctx: Context) -> None:
        ctx.map("each", lambda item: 1, self.items)
        ctx.wait_for_event("go")

    def again(self, *items: Any) -> str:
        """What a replay with these is blocked for; empty where it goes on."""
        self.items = list(items)
        outcome = self.world.attempt(self.body)
        return outcome.text if isinstance(outcome, Blocked) else ""


@pytest.mark.parametrize(
    ("before", "now", "number"),
    [("abc", "cab", 0), ("abc", "acb", 1), ([1, {"a": 1}], [1, {"a": 2}], 1), ([1], [1.0], 0), ([True], [1], 0)],
)
def test_the_first_item_that_is_another_than_before_is_named(before: Any, now: Any, number: int) -> None:
    given = Given(*before)
    assert given.again(*before) == ""
    assert f"'each' was begun with another item {number} than" in given.again(*now)


def test_of_very_many_items_one_digest_is_kept() -> None:
    items = [f"item {number}" for number in range(EACH_MAX + 1)]
    given = Given(*items)
    assert given.again(*items) == ""
    assert "'each' was begun with other items, or in another order" in given.again(*reversed(items))
    assert len(given.world.entries["each"].value or "") < 100


@pytest.mark.parametrize("count", [2, EACH_MAX + 1])
def test_what_cannot_be_stored_may_be_mapped_and_goes_by_its_number(count: int) -> None:
    given = Given(*[object()] * count)
    assert given.again(*[object()] * count) == ""
    assert f"begun with {count} items" in given.again(*[object()] * (count + 1))


def test_one_item_that_cannot_be_stored_hides_no_other() -> None:
    given = Given(object(), "b")
    assert given.again(object(), "b") == ""
    assert "another item 1 than" in given.again(object(), "c")


def line_of(*more: str) -> Any:
    """The class as a deploy has it that knows these fields as well."""

    fields = [("sku", str), *((name, str, "") for name in more)]
    cls = make_dataclass("Line", fields, namespace={"__module__": __name__, "__qualname__": "Line"}, frozen=True)
    return durable_type("maps.line")(cls)


@pytest.mark.parametrize("count", [2, EACH_MAX + 1])
def test_a_field_that_is_added_to_a_dataclass_makes_no_other_items(count: int) -> None:
    def items(cls: Any, first: str = "sku 0") -> list[Any]:
        return [(frozenset({cls(first)}), {"line": cls(f"sku {number}")}) for number in range(count)]

    given = Given(*items(line_of()))
    added = line_of("note", "colour")
    assert given.again(*items(added)) == ""
    assert "was begun with" in given.again(*items(added, "another"))
    assert given.again(*items(line_of("colour", "note"))) == ""
    assert '"fields":{"@maps.line":["sku"]}' in (given.world.entries["each"].value or "")


@pytest.mark.parametrize("digests", ["", ',"digests":{"of":["a","b"],"scheme":0}'], ids=["none", "another scheme"])
def test_a_map_whose_items_are_known_by_nothing_that_stands_goes_by_their_number(digests: str) -> None:
    given = Given("a", "b")
    given.world.entries["each"].value = f'{{"started":2,"count":2{digests}}}'
    assert given.again("b", "a") == ""
    assert "was begun with 2 items" in given.again("a")


def test_where_an_event_was_taken_is_no_part_of_what_it_is() -> None:
    def taken(number: int, payload: str = "x") -> Event:
        return Event("paid", payload, NOON, _answer=Answer(None, UUID(int=number), f"wait {number}"))

    given = Given({"event": taken(1)})
    assert given.again({"event": taken(2)}) == ""
    assert "another item 0 than" in given.again({"event": taken(1, "y")})


def test_what_stands_for_a_value_changes_with_the_scheme_only() -> None:
    """Where this fails the text of some value has changed. Raise SCHEME, else an upgrade blocks every live map."""
    line = line_of()("a")
    values = [
        None, True, 1, 1.5, float("inf"), "ü", [1], (1,), {"a": 1}, {1: 2}, {2, 1}, frozenset("a"), b"x",
        Decimal("1.50"), UUID(int=1),
        NOON, NOON.date(), NOON.time(), timedelta(1), line, Event("paid", 1, NOON), Outcome(True, 1),
    ]  # fmt: skip
    found = digests_of(values)
    assert found is not None and SCHEME == 1
    assert "".join(found.of) == STANDS_FOR


STANDS_FOR = (
    "74234e98b5bea41b6b86b2739f29a130255c379a85844d48080a9ed47fe7a64c015abd7f558cd9d9489481fb8e80efce"
    "7d8e39a746a7f6ee6e927b057119674b077cef4b2188863b595b84a799766c370b14e1382eccf3e3"
)


def test_an_item_that_is_not_in_the_journal_shifts_no_other() -> None:
    given = Given("a", "b", "c")
    del given.world.entries["each[1]"]
    assert isinstance(given.world.attempt(given.body), Failed)
    assert isinstance(given.world.error, PayloadUndecodable), "which the executor blocks the run for"
    assert "item 1 of map 'each' is not in the journal" in str(given.world.error)


def test_without_a_limit_so_many_steps_are_begun_at_a_time() -> None:
    begun: list[int] = []

    def first(spawned: list[Spawn]) -> Spawn:
        begun.append(len(spawned))
        return spawned[0]

    assert World(pick=first).value(lambda ctx: ctx.map("each", int, range(40))) == [*range(40)]
    assert begun == [16] * 25 + [*range(15, 0, -1)]
