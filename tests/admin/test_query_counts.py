"""What every address costs: a dozen queries at most, for a person with each permission, of whom more is asked than of a
superuser, however many rows there are; and no choice of a filter is looked for among the runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.auth.models import Permission
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_durable.admin.journal import ENTRIES_SHOWN
from django_durable.models import Hold, JournalEntry, Run, Schedule
from tests.admin.conftest import Person
from tests.admin.every import Rows, addresses, make_rows, question
from tests.admin.pages import list_url, run_url
from tests.admin.test_access import ACTIONS
from tests.admin.world import make_entry, make_line, make_run, make_schedule, make_worker
from tests.app import limits

MOST = 12
STATUSES = ("queued", "scheduled", "running", "waiting", "paused", "blocked", "succeeded", "failed", "cancelled")
CHOICES = ("?status=attention", "?status=waiting", "?status=queued&queue=default", "?q=packed", "?q=no+such+key",
           "?created=1h&status=failed", "?all=1")  # fmt: skip
Ask = Callable[[], Any]


@pytest.fixture(autouse=True)
def _on(settings: Any) -> None:
    settings.DURABLE = {**settings.DURABLE, "ADMIN_START": True}


@pytest.fixture
def client(person: Person) -> Client:
    ours = Permission.objects.filter(content_type__app_label="django_durable")
    return person(*ours.values_list("codename", flat=True))


def furnish(rows: Rows, count: int) -> None:
    """So many of each thing that a page might ask for one by one."""
    now = timezone.now()
    for number in range(count):
        for status in STATUSES:
            held = {"leased_by": rows.worker.pk} if status == "running" else {}
            run = make_run(status, queue=f"q{number}", **held)
            run.payloads.create(kind="progress", data='{"done": 1, "total": 2}')
        child = make_run("failed", parent=rows.live, parent_path=f"step {number}")
        for run in (rows.run, rows.live):
            make_entry(run, f"step {number}", 10 + number, value='"x"')
            run.events.create(name="packed", payload='"x"')
            run.audit.create(verb="cancel", actor="ann", status_before="queued")
            run.tags.create(name=f"tag {number}")
        schedule = make_schedule(name=f"s{number}", problem="It has one.")
        for one in (schedule, rows.schedule):
            one.fires.create(
                scheduled_for=now - timedelta(hours=number), fired_at=now, run_id=child.pk, outcome="started"
            )
        make_worker(host=f"h{number}", queues=[f"q{number}"])
        Hold.objects.create(kind=Hold.QUEUE, name=f"held {number}")
    below = rows.run
    for _ in range(3):
        above = make_run("waiting")
        Run.objects.filter(pk=below.pk).update(parent=above, parent_path="step")
        below = above


def everything(client: Client, rows: Rows) -> Iterator[tuple[str, Ask]]:
    """Every address by GET and, where it asks before it acts, by POST; every choice of the list; and every action."""
    for name in addresses():
        url = rows.url(name)
        yield f"{name} by GET", lambda url=url: client.get(url)  # type: ignore[misc]
        yield f"{name} by POST", lambda url=url, name=name: client.post(url, question(name))  # type: ignore[misc]
    for choice in (*CHOICES, f"?q={rows.run.pk}", f"?created={rows.run.pk}"):
        yield f"list {choice}", lambda choice=choice: client.get(list_url(choice))  # type: ignore[misc]
    for run in Run.objects.order_by("pk")[: len(STATUSES) + 2]:
        for name in ("run_change", "run_live"):
            url = rows.url(name).replace(str(rows.run.pk), str(run.pk))
            yield f"{name}: {run.status}", lambda url=url: client.get(url)  # type: ignore[misc]
    for (model, action), _ in ACTIONS.items():
        url, many = rows.url(f"{model}_changelist"), Run if model == "run" else Schedule
        picked = {"action": action, ACTION_CHECKBOX_NAME: [str(row.pk) for row in many.objects.all()]}  # type: ignore[attr-defined]
        yield f"{action}, of a few", lambda url=url, sent=picked: client.post(url, sent)  # type: ignore[misc]
        if model == "run":
            sent = {**picked, ACTION_CHECKBOX_NAME: "all", "select_across": "1"}
            for query in ("", "?status=failed"):
                where = url + query
                yield f"{action}, of all {query}", lambda url=where, sent=sent: client.post(url, sent)  # type: ignore[misc]


def queries_of(ask: Ask) -> list[str]:
    with CaptureQueriesContext(connection) as queries:
        ask()
    return [query["sql"] for query in queries]


def too_many(costs: dict[str, list[str]]) -> dict[str, tuple[int, list[str]]]:
    return {name: (len(asked), [sql[:150] for sql in asked]) for name, asked in costs.items() if len(asked) > MOST}


def test_every_page_and_every_question(client: Client) -> None:
    """There is more of everything than they may ask for: where one asks row by row it is too much."""
    rows = make_rows()
    furnish(rows, MOST + 1)
    # What Django keeps for the process, such as content types, is there after the first page.
    client.get(rows.url("run_changelist"))
    costs = {name: queries_of(ask) for name, ask in everything(client, rows)}
    assert too_many(costs) == {}
    assert len(costs) > 2 * len(addresses())
    # Among ten million runs that takes minutes: choices are fixed, registered, or told by workers.
    assert [(name, sql) for name, asked in costs.items() for sql in asked if "SELECT DISTINCT" in sql] == []


LONG_AGO = timezone.now() - timedelta(hours=3)
LIMITED = {"workflow": limits.one_a_tenant.name, "limit_key": "a"}
COSTLY: dict[str, tuple[str, dict[str, Any]]] = {
    "queued again": ("queued", {"claims": 1, "started_at": LONG_AGO, **LIMITED}),
    "queued to be rated": ("queued", {"workflow": limits.two_a_minute.name, "limit_key": "a"}),
    "still": ("running", {"queued_at": LONG_AGO, "started_at": LONG_AGO}),
    "waiting": ("waiting", {}),
    "blocked": ("blocked", {}),
    "succeeded": ("succeeded", {}),
    "failed": ("failed", {}),
}


@pytest.mark.parametrize("count", [3, ENTRIES_SHOWN + 5])
@pytest.mark.parametrize("state", COSTLY)
def test_a_run_of_which_all_is_told(client: Client, state: str, count: int) -> None:
    """Its steps were tried again, lie in a scope that is not listed, and lead to children."""
    status, columns = COSTLY[state]
    worker = make_worker(workflows=[limits.one_a_tenant.name, limits.two_a_minute.name])
    run = make_run(status, **columns, **({"leased_by": worker.pk} if status == "running" else {}))
    JournalEntry.objects.bulk_create(
        JournalEntry(run=run, path=f"loop[{n}]/read", seq=n, kind=kind, status="succeeded", attempts=2,
            started_at=LONG_AGO, finished_at=LONG_AGO, token=run.pk)
        for n, kind in enumerate(["child", *["step"] * count], 2)
    )  # fmt: skip
    make_entry(run, "loop", 1, kind="loop", status="open", started_at=LONG_AGO, finished_at=None)
    make_line(run, "ValueError", scope="loop[3]/read", attempt=1, seconds=1.0)
    make_run("failed", parent=run, parent_path="loop[2]/read")
    client.get(list_url())
    pages = [run_url(run) + query for query in ("", "?in=loop", "?from=3")]
    costs = {page: queries_of(lambda page=page: client.get(page)) for page in pages}  # type: ignore[misc]
    assert too_many(costs) == {}
