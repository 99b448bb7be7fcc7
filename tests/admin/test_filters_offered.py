"""What the filters of the lists offer, as they are read beside them."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from django_durable.admin import filters
from tests.admin.pages import list_url, text_of
from tests.admin.world import make_schedule, make_worker
from tests.app.workflows import doubling


def offered(client: Client, url: str) -> list[tuple[str, list[str]]]:
    """By its title, the labels of each filter."""
    response = client.get(url)
    listing = response.context["cl"]
    found = [(str(one.title), [str(each["display"]) for each in one.choices(listing)]) for one in listing.filter_specs]
    text = text_of(response)
    assert [title for title, labels in found if f"By {title} {' '.join(labels)}" not in text] == []
    return found


RUNS = [
    (
        "status",
        ["All", "needs attention", "scheduled", "queued", "running", "waiting", "paused", "blocked", "succeeded",
         "failed", "cancelled"],
    ),
    (
        "what is wrong",
        ["All", "failed today", "failed in the last day", "no worker serves its queue", "has lost its worker",
         "nothing journaled for an hour", "due and not woken"],
    ),
    ("why it is blocked", ["All", "crashed", "diverged", "undecodable", "unknown workflow"]),
    ("created", ["All", "last 10 minutes", "last hour", "last 24 hours", "last 7 days"]),
    ("workflow", ["All", "app.doubling"]),
    ("queue", ["All", "default", "vip"]),
]  # fmt: skip
SCHEDULES = [("status", ["All", "needs attention", "late", "cannot fire", "failing", "enabled", "disabled"])]


def test_the_filters_of_the_runs(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filters, "workflows", lambda: {doubling.name: doubling})
    make_worker(queues=["vip"])
    assert offered(boss, list_url()) == RUNS


def test_the_filters_of_the_schedules(boss: Client) -> None:
    make_schedule()
    assert offered(boss, reverse("admin:django_durable_schedule_changelist")) == SCHEDULES
