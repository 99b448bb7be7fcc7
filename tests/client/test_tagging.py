"""The tag that links runs to a row."""

from __future__ import annotations

from uuid import UUID

import pytest
from django.db import models

from django_durable import Context, ModelRef, durable_workflow, tag_for
from django_durable.core import registry
from django_durable.exceptions import InvalidName
from django_durable.models import Run
from tests.app.models import Counter

KEY = UUID("0192f0c1-2345-7678-9abc-def012345678")


class Parcel(models.Model):  # noqa: DJ008
    id = models.UUIDField(primary_key=True)

    class Meta:
        app_label = "tagging"


class Sign(models.Model):  # noqa: DJ008
    code = models.CharField(primary_key=True, max_length=500)

    class Meta:
        app_label = "tagging"


class ProxyOfParcel(Parcel):  # noqa: DJ008
    class Meta:
        app_label = "tagging"
        proxy = True


class Pair(models.Model):  # noqa: DJ008
    pk = models.CompositePrimaryKey("left", "right")
    left, right = models.IntegerField(), models.IntegerField()

    class Meta:
        app_label = "tagging"


def test_it_names_model_and_key() -> None:
    assert tag_for(Counter(pk=7)) == "app.counter:7"
    assert tag_for(ModelRef("app.counter", 7)) == "app.counter:7"


@pytest.mark.parametrize("key", [KEY, str(KEY), KEY.hex, KEY.hex.upper()])
def test_it_is_the_same_however_the_row_was_come_by(key: object) -> None:
    assert tag_for(Parcel(pk=key)) == tag_for(ProxyOfParcel(pk=key)) == f"tagging.parcel:{KEY}"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (Counter(), "not been saved"),
        (Pair(left=1, right=2), "several columns"),
        (Sign(pk="x" * 200), "longer than 200"),
        (Sign(pk="a\x00b"), "control characters"),
    ],
    ids=["unsaved", "composite", "long", "unfit"],
)
def test_what_no_tag_can_stand_for_is_refused(row: models.Model, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tag_for(row)


def test_a_name_that_is_none_is_told_as_such() -> None:
    with pytest.raises(InvalidName):
        tag_for(Sign(pk="x" * 200))


@pytest.mark.django_db
def test_a_reference_in_the_input_links_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_named", dict(registry._named))

    @durable_workflow(name="tagging.counting")
    def counting(ctx: Context, counter: object, other: object = None) -> None: ...

    first, second = (Counter.objects.create(name=name) for name in "ab")
    run = counting.using(tags=["vip", tag_for(first)]).enqueue(ModelRef.of(first), other=ModelRef.of(second))
    assert sorted(run.run.tags.values_list("name", flat=True)) == sorted([tag_for(first), tag_for(second), "vip"])
    assert list(Run.objects.tagged(tag_for(second))) == [run.run]
    again = run.rerun()
    assert set(Run.objects.tagged(tag_for(first))) == {run.run, again.run}


@pytest.mark.django_db
@pytest.mark.parametrize(
    "ref",
    [ModelRef("gone.model", 1), ModelRef("nonsense", 1), ModelRef("app.counter", "x"), ModelRef("app.counter", None)],
    ids=["no model", "no label", "no key", "no row"],
)
def test_a_reference_that_leads_nowhere_starts_a_run_all_the_same(
    ref: ModelRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_named", dict(registry._named))

    @durable_workflow(name="tagging.counting")
    def counting(ctx: Context, counter: object) -> None: ...

    assert not counting.enqueue(ref).run.tags.exists()
