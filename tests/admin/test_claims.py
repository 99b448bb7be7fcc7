"""Which worker had a run when, on the run's page."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from django_durable.admin.claims import CLAIMS_SHOWN
from django_durable.models import ClaimRecord, Run
from tests.admin.conftest import Person
from tests.admin.pages import judge, run_url, text_of
from tests.admin.world import make_run, make_worker

LOST = "lost: its lease lapsed, or its process died"


def keep(run: Run, number: int, worker: UUID, claimed_at: datetime, lost_at: datetime | None = None) -> None:
    ClaimRecord.objects.create(
        run_id=run.pk, place=number % 50, number=number, worker_id=worker, claimed_at=claimed_at, lost_at=lost_at
    )


def section(client: Client, run: Run) -> str:
    """What a person reads under *Claims*; empty where there is no such part."""
    text = text_of(client.get(run_url(run)))
    found = re.search(r"Claims Claim Worker Since Over by (.*)", text)
    return found[1] if found else ""


def clock_of(moment: datetime | None) -> str:
    assert moment is not None
    return f"{timezone.localtime(moment):%Y-%m-%d %H:%M:%S}"


def test_a_run_that_ended_in_its_first_claim(boss: Client) -> None:
    worker = make_worker(host="box", pid=7, version="2026.11")
    run = make_run("succeeded", started_by=worker.pk)
    assert section(boss, run).startswith(f"1 box:7 2026.11 {clock_of(run.started_at)} {clock_of(run.finished_at)}")


def test_the_newest_comes_first_and_each_ends_with_the_next(boss: Client) -> None:
    now = timezone.now()
    first, second = make_worker(host="one", pid=1), make_worker(host="two", pid=2)
    run = make_run("running", started_by=first.pk, claims=4)
    keep(run, 2, first.pk, now - timedelta(seconds=60), lost_at=now - timedelta(seconds=20))
    keep(run, 3, second.pk, now - timedelta(seconds=10))
    keep(run, 4, (gone := uuid4()), now)
    times = [clock_of(now - timedelta(seconds=seconds)) for seconds in (60, 20, 10, 0)]
    assert section(boss, run).startswith(
        f"4 {str(gone)[-12:]} {times[3]} it has the run now"
        f" 3 two:2 {times[2]} {times[3]}"
        f" 2 one:1 {times[0]} {times[1]} {LOST}"
        f" 1 one:1 {clock_of(run.started_at)} {times[0]}"
    )


def test_a_first_claim_that_was_lost_is_told_once(boss: Client) -> None:
    worker, now = make_worker(host="one", pid=1), timezone.now()
    run = make_run("queued", started_by=worker.pk, started_at=now, claims=1)
    keep(run, 1, worker.pk, now, lost_at=now)
    told = section(boss, run)
    assert told.startswith(f"1 one:1 {clock_of(now)} {clock_of(now)} {LOST}")
    assert told.count("one:1") == 1


def test_nobody_knows_since_when_a_run_waits(boss: Client) -> None:
    run = make_run("waiting", started_by=make_worker(host="one", pid=1).pk)
    assert section(boss, run).startswith(f"1 one:1 {clock_of(run.started_at)} -")


def test_a_run_that_nobody_has_claimed_has_no_such_part(boss: Client) -> None:
    assert section(boss, make_run()) == ""


def test_no_more_than_the_latest_are_shown(boss: Client) -> None:
    worker = make_worker(host="one", pid=1)
    run = make_run("running", started_by=worker.pk, claims=CLAIMS_SHOWN + 1)
    for number in range(2, CLAIMS_SHOWN + 2):
        keep(run, number, worker.pk, timezone.now())
    told = section(boss, run)
    assert told.startswith(f"{CLAIMS_SHOWN + 1} ")
    assert told.count("one:1") == CLAIMS_SHOWN
    assert "1 other claim is not known any more." in told
    Run.objects.filter(pk=run.pk).update(claims=CLAIMS_SHOWN)
    ClaimRecord.objects.filter(number=CLAIMS_SHOWN + 1).delete()
    assert "not known any more" not in section(boss, run)


def test_workers_are_linked_for_those_who_may_look_at_them(person: Person) -> None:
    worker = make_worker()
    run = make_run("succeeded", started_by=worker.pk)
    url = reverse("admin:django_durable_worker_change", args=[worker.pk])
    for client, is_linked in ((person("view_run"), False), (person("view_run", "view_worker", name="bob"), True)):
        assert (url in client.get(run_url(run)).content.decode()) is is_linked


@pytest.mark.parametrize("text", ["<hostile onclick=x>", "\u202egnp.exe", "w" * 250])
def test_names_of_hosts_are_no_markup(boss: Client, text: str) -> None:
    run = make_run("succeeded", started_by=make_worker(host=text, version=text[:64]).pk)
    response = boss.get(run_url(run))
    assert judge(response) == []
    assert "\u202e" not in response.content.decode()
    assert section(boss, run)
