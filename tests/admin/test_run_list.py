from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_durable.admin.look_only import CappedPaginator
from django_durable.core.journal.states import Status
from django_durable.core.payloads.codec import encode
from django_durable.models import Payload, Run, Tag
from tests.admin.conftest import LOOK, Person
from tests.admin.pages import list_url, run_url, text_of
from tests.admin.world import make_run, make_worker
from tests.app.workflows import doubling


def listed(client: Client, query: str = "") -> list[Run]:
    response = client.get(list_url(query))
    assert response.status_code == 200
    return list(response.context["cl"].result_list)


def test_the_newest_come_first_whatever_the_address_asks_for(boss: Client) -> None:
    runs = [make_run("queued", workflow=name) for name in ("b", "a", "c")]
    newest_first = sorted(runs, key=lambda run: run.pk, reverse=True)
    assert listed(boss) == listed(boss, "?o=2") == listed(boss, "?o=-3.1") == newest_first


@pytest.mark.behaviour("RUN-08a")
def test_filters_take_fixed_choices(boss: Client) -> None:
    waiting, other = make_run("waiting", queue="vip"), make_run("failed", workflow="app.sleepy")
    make_worker(queues=["vip"])
    assert listed(boss, "?status=waiting") == [waiting]
    assert listed(boss, "?workflow=app.sleepy") == [other]
    assert listed(boss, "?queue=vip") == [waiting]
    assert listed(boss, "?queue=vip&status=failed") == []


@pytest.mark.parametrize("query", ["?status=nonsense", "?workflow=no.such", "?queue=%00", "?status=%27"])
def test_another_choice_finds_nothing(boss: Client, query: str) -> None:
    make_run()
    assert listed(boss, query) == []


@pytest.mark.parametrize("query", ["workflow__contains=a", "queue__regex=x", "lease_token__startswith=0", "id__gt=0"])
def test_no_other_column_is_searched_from_the_address_line(boss: Client, query: str) -> None:
    assert boss.get(list_url(f"?{query}")).status_code in (302, 400)


def test_search_is_exact_by_id_key_and_tag(boss: Client) -> None:
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


SEARCHES = ["order-42", "blue", "order", "blu", "%25", "x" * 300]


def test_a_line_says_where_its_run_stands(boss: Client) -> None:
    run = make_run("waiting", attempt=2, max_attempts=5, cancel_requested_at="2026-01-01T00:00:00Z")
    Payload.objects.create(run=run, kind="progress", data=encode({"done": 3, "total": 10, "message": "packing"}))
    for name in ("eins", "zwei", "drei", "vier", "fünf", "sechs"):
        Tag.objects.create(run=run, name=name)
    response = boss.get(list_url())
    text = text_of(response)
    for part in ("waiting", "cancelling", "app.doubling", str(run.pk)[-12:], "2/5", "3/10", "drei", "eins", "+3"):
        assert part in text
    html = response.content.decode()
    assert '<progress max="10" value="3">' in html
    assert "durable-pill-waiting" in html
    assert run_url(run) in html


@pytest.mark.parametrize("status", sorted(Status))
def test_every_status_has_a_pill(boss: Client, status: str) -> None:
    make_run(status)
    assert f'class="durable-pill durable-pill-{status}"' in boss.get(list_url()).content.decode()


def test_an_empty_list_says_so(boss: Client) -> None:
    assert "0 runs" in text_of(boss.get(list_url()))


def test_the_number_of_queries_does_not_grow(person: Person) -> None:
    client = person(*LOOK, "cancel_run", "resume_run")
    client.get(list_url())  # fills Django's cache of content types
    for _ in range(60):
        run = make_run()
        Tag.objects.create(run=run, name="blue")
        Payload.objects.create(run=run, kind="progress", data=encode({"done": 1, "total": 2, "message": ""}))
    for query in ("", "?status=queued&workflow=app.doubling&queue=default&q=blue", "?p=2"):
        with CaptureQueriesContext(
            connection,
        ) as queries:
            assert client.get(list_url(query)).status_code == 200
        assert len(queries) <= 12, [query["sql"] for query in queries]
        counts = [query["sql"] for query in queries if "COUNT(" in query["sql"].upper()]
        assert len(counts) == 1
        assert "LIMIT 10001" in counts[0]
        assert not any("DISTINCT" in query["sql"] or "LIKE" in query["sql"] for query in queries)


def test_counting_stops_at_a_cap(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CappedPaginator, "most", 60)
    for _ in range(60):
        make_run()
    assert "more than" not in text_of(boss.get(list_url("?p=2")))
    make_run()
    response = boss.get(list_url("?p=2"))
    assert "There are more than 60 runs here" in text_of(response)
    assert len(response.context["cl"].result_list) == 10


def test_a_run_that_is_gone_is_told(boss: Client) -> None:
    for object_id in (make_run.__name__, "0198f2a4-0000-7000-8000-000000000000", "<script>"):
        response = boss.get(f"{list_url()}{object_id}/change/", follow=True)
        assert response.redirect_chain == [(list_url(), 302)]
        assert "There is no run" in text_of(response)
