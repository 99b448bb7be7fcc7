"""What becomes of each journal of v0_1: how its run was found, what happens to it then, how it ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from unittest.mock import ANY

from django_durable.client.handle import RunHandle
from django_durable.core.journal.states import Status
from django_durable.core.payloads.codec import encode
from django_durable.exceptions import RunCancelled, RunFailed
from django_durable.models import Event
from django_durable.testing import TravelClock
from tests.app.models import Counter
from tests.fixtures import workflows
from tests.fixtures.everything import everything

Happening = Callable[[RunHandle[Any], TravelClock], None]


def nothing(run: RunHandle[Any], clock: TravelClock) -> None:
    """Time passes, and that is enough."""


@dataclass(frozen=True)
class Ending:
    """``outcome``: see ``outcome_of``; ``calls``: the steps that run after the upgrade, and no others."""

    outcome: Any
    found: Status = Status.WAITING
    ends: Status = Status.SUCCEEDED
    calls: list[str] = field(default_factory=list)
    then: Happening = nothing


def outcome_of(run: RunHandle[Any]) -> Any:
    """The run's value, or what `result()` raises: the error's type and message, the reason of a cancellation."""
    try:
        return run.result()
    except RunFailed as failure:
        return failure.error["type"], failure.error["message"]
    except RunCancelled as cancelled:
        return cancelled.reason


class Stored:
    """Equal to what is stored as the same text: among the values is a NaN, which is not even equal to itself."""

    def __init__(self, value: Any) -> None:
        self.text = encode(value)

    def __eq__(self, other: object) -> bool:
        return encode(other) == self.text

    def __repr__(self) -> str:
        return self.text


# --- what happens ----------------------------------------------------------------------------


def look_at_the_counters(run: RunHandle[Any], clock: TravelClock) -> None:
    """What the first atomic step wrote was not exported: only doing it again would bring it back."""
    Counter.objects.create(name="fixture before", value=10)


def ship(run: RunHandle[Any], clock: TravelClock) -> None:
    # It was sent before, under the same key.
    run.send_event("address", "elsewhere", idempotency_key="address-1")
    assert Event.objects.filter(name="address").count() == 1
    run.send_event("shipped", {"parcels": 2})


def answer(run: RunHandle[Any], clock: TravelClock) -> None:
    run.send_event("answer", "yes")


def look_at_the_progress(run: RunHandle[Any], clock: TravelClock) -> None:
    assert run.progress == {"done": 1, "total": 2, "message": "drawn"}


def look_at_the_children(run: RunHandle[Any], clock: TravelClock) -> None:
    children = run.run.children.order_by("pk")
    assert run.result() == [child.pk for child in children]
    assert [child.detached for child in children] == [False, True]


def resume(run: RunHandle[Any], clock: TravelClock) -> None:
    why = run.why()
    assert "diverged" in why.reason
    assert "'measure' is a step in the journal" in why.text
    run.resume("the code fits again")


def lapse(run: RunHandle[Any], clock: TravelClock) -> None:
    """The lease of a worker that nobody has heard of since."""
    clock.advance(minutes=1)


def book_again(run: RunHandle[Any], clock: TravelClock) -> None:
    assert workflows.booked.using(idempotency_key="seat-14").enqueue(seat="14") == run
    assert sorted(run.run.tags.values_list("name", flat=True)) == ["train", "window"]


ENDINGS = {
    "steps": Ending(
        {"order": 7, "reserved": "reserve", "rows": ["pack a", "pack b/c", "pack 3"]}, found=Status.SUCCEEDED
    ),
    "retrying": Ending(["charge", "ship"], calls=["ship"]),
    "caught": Ending([["charge", 2, "ConnectionError", "charge: no answer"], "apologise"], calls=["apologise"]),
    "atomic": Ending([1, 1], calls=["fixture after"], then=look_at_the_counters),
    "ephemeral": Ending(["look 0", "look 1", "look 2"], calls=["look 2"]),
    "sleeping": Ending("get up", calls=["get up"]),
    "listening": Ending(
        [
            {"cents": 1250},
            datetime(2026, 1, 1, 9, 0, 0, 123_456, tzinfo=UTC),
            {"parcels": 2},
            {"street": "Gleis 9¾"},
        ],
        then=ship,
    ),
    "unheard": Ending(["paid did not come", "nothing", "remind"], calls=["remind"]),
    "awaiting_child": Ending([42, 126], calls=["end 21", "all 42"]),
    "children_ended": Ending(
        [42, ["fail", "failed", "django_durable.exceptions.StepFailed"], "go on"], calls=["go on"]
    ),
    "detaching": Ending(ANY, found=Status.SUCCEEDED, calls=["end 1", "end 2"], then=look_at_the_children),
    "values": Ending({"count": 7, "are the same": True}, then=look_at_the_progress),
    "payloads": Ending(Stored([everything()] * 3)),
    "in_async": Ending(["coroutine", "plain", "yes", "last"], calls=["last"], then=answer),
    "cancelled": Ending("the customer has thought better of it", found=Status.CANCELLED, ends=Status.CANCELLED),
    "run_retrying": Ending(["begin", 4, "end"], calls=["end"]),
    "on_failure": Ending(
        (
            "django_durable.exceptions.StepFailed",
            "Step 'refuse' failed after 1 attempt: django_durable.exceptions.NonRetriableError: refuse: refused",
        ),
        found=Status.FAILED,
        ends=Status.FAILED,
    ),
    "blocked": Ending("paint", found=Status.BLOCKED, calls=["paint"], then=resume),
    "abandoned": Ending("end", found=Status.RUNNING, calls=["end"], then=lapse),
    "booked": Ending("ticket for 14", found=Status.SCHEDULED, calls=["ticket for 14"], then=book_again),
}
