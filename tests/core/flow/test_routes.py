"""A run that goes one of several ways: the code's own `match`, on a value that is journaled."""

from __future__ import annotations

from typing import Any

import pytest

from django_durable.core.context import Context
from django_durable.core.journal.outcomes import Failed, Suspended
from django_durable.exceptions import NonRetriableError

from ..driving import World


def routed(kinds: list[str]) -> Any:
    """A workflow that asks once which way to go; whoever asked again would be told the next one of ``kinds``."""

    def body(ctx: Context) -> Any:
        match ctx.step("kind", lambda: kinds.pop(0)):
            case "letter":
                ctx.wait_for_event("stamped")
                return ctx.step("post", lambda: "posted")
            case "parcel":
                return ctx.step("drive", lambda: "driven")
            case other:
                raise NonRetriableError(f"there is no way for a {other!r}")

    return body


@pytest.mark.behaviour("FLOW-05a")
def test_a_replay_takes_the_way_that_was_chosen() -> None:
    world, body = World(), routed(["letter", "parcel"])
    assert isinstance(world.attempt(body), Suspended)
    world.send("stamped")
    assert world.value(body) == "posted"
    assert world.performed == ["kind", "post"]


@pytest.mark.behaviour("FLOW-05b")
def test_a_way_that_does_not_exist_fails_with_its_name() -> None:
    world = World()
    assert isinstance(world.run(routed(["piano"])), Failed)
    assert "there is no way for a 'piano'" in str(world.error)
    assert world.performed == ["kind"]
