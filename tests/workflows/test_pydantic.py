"""Input is checked against the annotations where pydantic is installed: all problems, with their paths."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import pytest
from pydantic import Field

from django_durable import Context, Event, Outcome, durable_type
from django_durable.core.kinds.events import Answer
from django_durable.core.payloads.codec import decode
from django_durable.exceptions import InvalidInput, StepFailed
from django_durable.workflows.signature import Signature

if TYPE_CHECKING:
    from nowhere import Unknown  # type: ignore[import-not-found]


@durable_type("tests.workflows.Address")
@dataclass
class Address:
    street: str
    number: int


class Opaque:
    pass


@durable_type("tests.workflows.Parcel")
@dataclass
class Parcel:
    event: Event
    opaque: Opaque | None = None


def order(ctx: Context, order_id: int, lines: list[dict[str, int]], day: date | None = None) -> None: ...


def problems(function: Any, *args: Any, **kwargs: Any) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        Signature(function).write("w", args, kwargs)
    return caught.value.problems


def written(function: Any, *args: Any, **kwargs: Any) -> Any:
    return decode(Signature(function).write("w", args, kwargs))


@pytest.mark.behaviour("DATA-01b")
def test_all_problems_are_told_with_their_paths() -> None:
    assert problems(order, "x", [{"a": 1}, {"a": "b"}, 5], day="soon") == [
        "order_id: Input should be a valid integer, unable to parse string as an integer",
        "lines[1]['a']: Input should be a valid integer, unable to parse string as an integer",
        "lines[2]: Input should be a valid dictionary",
        "day: Input should be a valid date or datetime, input is too short",
    ]


def test_what_fits_is_stored_as_its_type() -> None:
    assert written(order, "7", [], day="2024-05-01") == {"order_id": 7, "lines": [], "day": date(2024, 5, 1)}


@pytest.mark.behaviour("DATA-01a")
def test_it_is_checked_again_at_execution() -> None:
    with pytest.raises(InvalidInput) as caught:
        Signature(order).read("w", '{"order_id":"x","lines":[]}')
    assert caught.value.problems[0].startswith("order_id: ")


def test_constraints_of_annotated_types_hold() -> None:
    def constrained(ctx: Context, count: Annotated[int, Field(gt=0)]) -> None: ...

    assert problems(constrained, 0) == ["count: Input should be greater than 0"]
    assert written(constrained, 1) == {"count": 1}


def test_names_that_only_type_checkers_import_are_not_checked_and_the_others_are() -> None:
    def partly(ctx: Context, x: Unknown, y: int) -> None: ...

    assert problems(partly, "anything", "y") == [
        "y: Input should be a valid integer, unable to parse string as an integer"
    ]
    assert written(partly, "anything", 1) == {"x": "anything", "y": 1}


def test_dataclasses_and_classes_that_pydantic_does_not_know() -> None:
    def classes(ctx: Context, address: Address, opaque: Opaque | None = None) -> None: ...

    assert written(classes, Address("High Street", 1)) == {"address": Address("High Street", 1)}
    assert problems(classes, "High Street")[0].startswith("address: ")
    assert problems(classes, Address("High Street", 1), 5)[0].startswith("opaque: ")


def test_events_and_outcomes_are_values_like_others() -> None:
    def takes(
        ctx: Context, event: Event, several: list[Event] | None = None, outcome: Outcome | None = None
    ) -> None: ...

    answer = Answer(None, UUID(int=1), "wait")
    event = Event("paid", 1, datetime(2024, 5, 1, tzinfo=UTC), _answer=answer)
    failed = Outcome(False, error={"type": "E"}, failure=StepFailed("pay", 2, {"type": "E"}))
    found = written(takes, event, [event], failed)
    assert found == {"event": event, "several": [event], "outcome": failed}
    assert found["event"]._answer.place == found["several"][0]._answer.place == "wait"
    assert problems(takes, "paid")[0].startswith("event: ")
    assert problems(takes, event, outcome=Outcome)[0].startswith("outcome: ")


def test_a_dataclass_that_pydantic_can_make_nothing_of_is_taken_as_it_is() -> None:
    def takes(ctx: Context, parcel: Parcel, count: int) -> None: ...

    parcel = Parcel(Event("paid", 1, datetime(2024, 5, 1, tzinfo=UTC)))
    assert written(takes, parcel, 1) == {"parcel": parcel, "count": 1}
    assert problems(takes, parcel, "x")[0].startswith("count: ")


def test_what_has_no_annotation_is_taken_as_it_is() -> None:
    def loose(ctx, x, y: Any = None, *args: int, **kwargs: int) -> None: ...  # type: ignore[no-untyped-def]

    assert written(loose, "x", (1,), "z", k="v") == {"x": "x", "y": (1,), "args": ("z",), "kwargs": {"k": "v"}}
