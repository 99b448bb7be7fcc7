"""What the three lists read of tables that are long: no further than their pages reach, and nothing for facets."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from django_durable.admin import look_only
from tests.admin.world import make_run, make_schedule, make_worker

MOST, ROWS = 4, 7
LISTS: dict[str, Callable[[int], Any]] = {
    "run": lambda _: make_run(),
    "schedule": lambda number: make_schedule(name=f"s{number}"),
    "worker": lambda number: make_worker(pid=number),
}


def asked_by(client: Client, model: str, query: str = "") -> tuple[Any, list[str]]:
    """The list, and what it asks the database."""
    url = reverse(f"admin:django_durable_{model}_changelist") + query
    # What Django keeps for the process is there after the first page.
    client.get(url)
    with CaptureQueriesContext(connection) as queries:
        response = client.get(url)
    assert response.status_code == 200
    return response.context["cl"], [each["sql"] for each in queries]


def counted(sql: list[str], model: str) -> list[str]:
    """What counts rows of that table."""
    return [one for one in sql if "COUNT(" in one and f'FROM "django_durable_{model}"' in one]


@pytest.mark.parametrize("model", LISTS)
@pytest.mark.parametrize("is_filtered", [False, True], ids=["all", "filtered"])
def test_counting_has_an_end(boss: Client, monkeypatch: pytest.MonkeyPatch, model: str, is_filtered: bool) -> None:
    """A filter makes Django count both what it leaves and what there is."""
    monkeypatch.setattr(look_only.CappedPaginator, "most", MOST)
    monkeypatch.setattr(look_only.LookOnlyAdmin, "list_per_page", 2)
    for number in range(ROWS):
        LISTS[model](number)
    query = {"run": "?status=queued", "schedule": "?status=enabled", "worker": "?p=2"}[model] if is_filtered else ""
    found, sql = asked_by(boss, model, query)
    assert found.result_count == MOST and len(found.result_list) == 2
    # Of the runs ids are found, and these are what is counted.
    assert model != "run" or found.found.count == MOST + 1
    assert len(counted(sql, model)) == (0 if model == "run" else 1)
    table = [one for one in sql if f'FROM "django_durable_{model}"' in one]
    assert table, "it has read nothing at all"
    assert [one for one in table if not re.search(r"\bLIMIT\b| IN \(", one)] == []
    assert [one for one in counted(sql, model) if f"LIMIT {MOST + 1}" not in one] == []


@pytest.mark.parametrize("model", LISTS)
def test_no_address_makes_it_count_every_choice(boss: Client, model: str) -> None:
    for number in range(ROWS):
        LISTS[model](number)
    _, sql = asked_by(boss, model)
    found, with_facets = asked_by(boss, model, "?_facets=True")
    assert len(with_facets) == len(sql)
    assert not found.add_facets
