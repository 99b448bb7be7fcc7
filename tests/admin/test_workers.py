from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from django_durable.conf import durable_settings
from tests.admin.pages import text_of
from tests.admin.world import make_worker

LIST = "admin:django_durable_worker_changelist"


@pytest.mark.parametrize(
    ("beats", "stopped", "state"), [(1, False, "alive"), (4, False, "silent"), (1, True, "stopped")]
)
def test_a_line_says_whether_it_lives(boss: Client, beats: int, stopped: bool, state: str) -> None:
    last = timezone.now() - timedelta(seconds=beats * durable_settings().HEARTBEAT_SECONDS)
    make_worker(
        host="mill", pid=4711, queues=["orders", "vip"], heartbeat_at=last, stopped_at=last if stopped else None
    )
    text = text_of(boss.get(reverse(LIST)))
    for part in (state, "mill", "4711", "orders , vip", "32", f"{beats * 10} s ago"):
        assert part in text


def test_its_page_names_the_workflows(boss: Client) -> None:
    worker = make_worker(workflows=["app.doubling", "shop.fulfil_order"])
    text = text_of(boss.get(reverse("admin:django_durable_worker_change", args=[worker.pk])))
    assert "shop.fulfil_order" in text


def test_the_number_of_queries_does_not_grow(boss: Client) -> None:
    for pid in range(30):
        make_worker(pid=pid)
    boss.get(reverse(LIST))
    with CaptureQueriesContext(connection) as queries:
        boss.get(reverse(LIST))
    assert len(queries) <= 6
