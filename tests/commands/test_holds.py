"""durable_hold, durable_release."""

from __future__ import annotations

import json

import pytest

from django_durable.models import Audit, Hold
from tests.app.workflows import doubling
from tests.commands.conftest import Call
from tests.commands.test_verbs import ME

pytestmark = [pytest.mark.django_db, pytest.mark.contract]


@pytest.mark.parametrize(("kind", "name"), [("queue", "vip"), ("workflow", doubling.name)])
def test_hold_and_release(call: Call, kind: str, name: str) -> None:
    said = [
        call(command, kind, name, "--reason", "a bad deploy").out.strip()
        for command in ("durable_hold", "durable_hold", "durable_release", "durable_release")
    ]
    assert said == [f"{kind} {name} {end}" for end in ("held", "is held already", "released", "was not held")]
    told = Audit.objects.order_by("pk").values_list("verb", "actor", "reason", kind)
    assert list(told) == [("hold", ME, "a bad deploy", name), ("release", ME, "a bad deploy", name)]
    assert not Hold.objects.exists()


@pytest.mark.parametrize(("kind", "name"), [("queue", " "), ("workflow", "no.such")])
def test_what_cannot_be_is_refused_in_a_sentence(call: Call, kind: str, name: str) -> None:
    assert call("durable_hold", kind, name).failed
    assert not Hold.objects.exists()


def test_the_doctor_tells_what_is_held(call: Call) -> None:
    call("durable_hold", "queue", "vip", "--reason", "a bad deploy")
    said = call("durable_doctor").out
    assert "The queue 'vip' is held since" in said and f"by {ME}: a bad deploy" in said
    [found] = [part["held"] for part in _sections(json.loads(call("durable_doctor", "--json").out)) if "held" in part]
    assert [(one["kind"], one["name"], one["reason"]) for one in found] == [("queue", "vip", "a bad deploy")]


def _sections(told: object) -> list[dict[str, object]]:
    """Each dict of it, however deep."""
    inner = list(told.values()) if isinstance(told, dict) else told if isinstance(told, list) else []
    return ([told] if isinstance(told, dict) else []) + [found for one in inner for found in _sections(one)]
