"""References to model instances in payloads."""

from __future__ import annotations

import pytest

from django_durable import ModelRef
from django_durable.core.payloads.codec import decode, encode
from django_durable.exceptions import PayloadError, PayloadUndecodable
from tests.app.models import Counter


@pytest.mark.django_db
def test_a_reference_comes_back_and_finds_the_row_as_it_is_then() -> None:
    counter = Counter.objects.create(name="a", value=1)
    ref = decode(encode({"counter": ModelRef.of(counter)}))["counter"]
    assert ref == ModelRef("app.counter", counter.pk)
    Counter.objects.update(value=2)
    assert ref.get().value == 2


def test_an_instance_itself_is_refused() -> None:
    with pytest.raises(PayloadError, match=r"value\[0\]"):
        encode([Counter(name="a", value=1)])


def test_an_instance_without_a_row_has_no_reference() -> None:
    with pytest.raises(ValueError, match="not been saved"):
        ModelRef.of(Counter(name="a", value=1))


@pytest.mark.parametrize("data", ["[1, 2]", "[]", "7", '["app.counter"]'])
def test_damaged_references_are_undecodable(data: str) -> None:
    with pytest.raises(PayloadUndecodable):
        decode(f'{{"$": "model", "v": {data}}}')
