"""The search of the list of runs: whole ids, idempotency keys and tags, whatever these look like."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_durable.admin import search
from django_durable.models import IdempotencyKey, Run, Tag
from django_durable.store.keys import hash_of
from tests.admin.conftest import Person
from tests.admin.pages import list_url, text_of
from tests.admin.test_run_list import EVERYTHING, listed
from tests.admin.world import make_run
from tests.app.workflows import doubling

LIKE_AN_ID = "c0ffee00-0000-4000-8000-000000000000"
SEARCHES = ["order-42", "blue", "order", "blu", "%25", "x" * 300]


def searched(client: Client, term: str) -> set[Any]:
    return {run.pk for run in listed(client, f"?{urlencode({'q': term})}")}


def make_keyed(run: Run, key: str, workflow: str = "app.doubling") -> None:
    IdempotencyKey.objects.create(
        workflow=workflow, key=key, key_hash=hash_of(key), run_id=run.pk, input_hash="",
        expires_at=timezone.now() + timedelta(days=1),
    )  # fmt: skip


def test_it_is_exact_by_id_key_and_tag(boss: Client) -> None:
    run = make_run()
    keyed = doubling.using(idempotency_key="order-42", tags=["blue", "order-42x"]).enqueue(number=1)
    tagged = doubling.using(tags=["order-42", "red"]).enqueue(number=2)
    found = {query: {run.pk for run in listed(boss, f"?q={query}")} for query in SEARCHES}
    assert found == {
        "order-42": {keyed.id, tagged.id},
        "blue": {keyed.id},
        "order": set(),
        "blu": set(),
        "%25": set(),
        "x" * 300: set(),
    }
    assert listed(boss, f"?q={run.pk}") == listed(boss, f"?q=+{run.pk.hex}+") == [run]
    assert listed(boss, f"?q={run.pk}&status=failed") == []
    assert boss.get(list_url("?q=%00")).status_code == 200


SPELLINGS: dict[str, Callable[[Any], str]] = {
    "with dashes": str,
    "a hash": lambda text: text.hex,
    "urn": lambda text: text.urn,
    "in braces": lambda text: f"{{{text}}}",
    "in capitals": lambda text: str(text).upper(),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_key_and_a_tag_that_look_like_an_id_are_found(boss: Client, spelling: str) -> None:
    key, tag = (SPELLINGS[spelling](uuid4()) for _ in range(2))
    run = doubling.using(idempotency_key=key, tags=[tag]).enqueue(number=1)
    make_run()
    assert searched(boss, key) == searched(boss, tag) == {run.id}


def test_an_id_that_is_the_key_and_the_tag_of_others_finds_each_once(boss: Client) -> None:
    run, keyed, tagged, both = (make_run() for _ in range(4))
    term = str(run.pk)
    for one, workflow in ((run, "app.own"), (keyed, "app.doubling"), (both, "app.other")):
        make_keyed(one, term, workflow)
    Tag.objects.bulk_create(Tag(run=one, name=term) for one in (run, tagged, both))
    everything = {run, keyed, tagged, both}
    response = boss.get(list_url(f"?q={term}"))
    assert response.context["cl"].result_count == 4
    assert set(response.context["cl"].result_list) == everything
    assert set(search.find(Run.objects.all(), term)) == everything
    every = {"action": "export_selected", "index": "0", "select_across": "1", "_selected_action": "all"}
    assert "This can be done to 4 runs." in text_of(boss.post(list_url(f"?q={term}"), every))


def test_outer_spaces_are_part_of_a_key_or_tag_and_no_hindrance(boss: Client) -> None:
    plain = doubling.using(idempotency_key="order-42", tags=["blue"]).enqueue(number=1)
    spaced = doubling.using(idempotency_key=" order-42", tags=["blue "]).enqueue(number=2)
    both = doubling.using(tags=["blue", "blue "]).enqueue(number=3)
    assert searched(boss, " order-42") == {plain.id, spaced.id}
    assert searched(boss, "order-42") == searched(boss, "order-42\t") == {plain.id}
    assert searched(boss, "blue ") == {plain.id, spaced.id, both.id}
    assert searched(boss, " blue ") == {plain.id, both.id}
    assert boss.get(list_url("?q=blue+")).context["cl"].result_count == 3
    # Spaces alone can be no name.
    assert len(searched(boss, "  ")) == 3
    longest = doubling.using(tags=["x" * 200]).enqueue(number=4)
    assert searched(boss, f" {'x' * 200} ") == {longest.id}


@pytest.mark.parametrize("term", ["blue", "blue ", LIKE_AN_ID])
def test_the_ways_to_find_them_have_none_in_common(term: str) -> None:
    runs = [make_run() for _ in range(8)]
    for number, run in enumerate(runs):
        names = {term, term.strip()} if number & 1 else {term.strip()} if number & 2 else ()
        Tag.objects.bulk_create(Tag(run=run, name=name) for name in names)
        if number & 4:
            make_keyed(run, term, f"app.{number}")
    ways = search.ways(Run.objects.all(), term)
    found = [run.pk for way in ways for run in way]
    assert len(found) == len(set(found)) == 7
    assert set(found) == set(search.find(Run.objects.all(), term).values_list("pk", flat=True))


def test_a_walk_over_all_goes_on_where_it_was_when_a_key_has_gone() -> None:
    """What finds very many has the same place among the ways, with a key and without."""
    make_keyed(make_run(), "blue")
    tagged = make_run()
    Tag.objects.create(run=tagged, name="blue")
    before = [list(way) for way in search.ways(Run.objects.all(), "blue")]
    IdempotencyKey.objects.all().delete()
    after = [list(way) for way in search.ways(Run.objects.all(), "blue")]
    assert before[0] == after[0] == [tagged]


@pytest.mark.parametrize("term", ["blue", " blue ", LIKE_AN_ID, f" {LIKE_AN_ID} "])
def test_it_takes_few_queries_whatever_is_looked_for(person: Person, term: str) -> None:
    client = person(*EVERYTHING)
    make_keyed(make_run(), term)
    Tag.objects.create(run=make_run("failed"), name=term.strip())
    query = urlencode({"q": term, "status": "attention", "created": "1h", "queue": "default"})
    for url in (list_url(f"?{query}"), list_url(f"?{urlencode({'q': term})}")):
        client.get(url)
        with CaptureQueriesContext(connection) as queries:
            assert len(client.get(url).context["cl"].result_list) > 0
        assert len(queries) <= 12, [each["sql"][:150] for each in queries]


def test_a_key_is_found_whatever_workflow_it_is_of(boss: Client) -> None:
    """Also of one that nobody has registered any more."""
    keyed = [doubling.using(idempotency_key="order-42").enqueue(number=1)]
    for name in ("", "app.removed", "zzz"):
        run = make_run(workflow=name or "app.doubling")
        keyed.append(run)
        make_keyed(run, "order-42", name)
    Tag.objects.create(run_id=keyed[0].id, name="order-42")
    assert {run.pk for run in listed(boss, "?q=order-42")} == {getattr(one, "id", None) for one in keyed}
    ticked = {"action": "export_selected", "index": "0", "_selected_action": [str(one.id) for one in keyed]}
    asked = boss.post(list_url("?q=order-42"), ticked)
    assert "Export these 4 runs?" in text_of(asked)


def test_what_is_ticked_among_those_of_a_tag_is_found(boss: Client) -> None:
    runs = [doubling.using(tags=["blue"]).enqueue(number=number).run for number in range(3)]
    other = doubling.using(tags=["blue too"]).enqueue(number=3).run
    ticked = [*runs[:2], other]
    data = {"action": "export_selected", "index": "0", "_selected_action": [str(run.pk) for run in ticked]}
    text = text_of(boss.post(list_url("?q=blue"), data))
    assert "Export these 2 runs?" in text and "1 of the selected runs stays as it is" in text
    assert [str(run.pk) in text for run in (*runs, other)] == [True, True, False, False]
