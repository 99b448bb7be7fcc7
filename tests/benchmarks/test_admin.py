"""What `benchmarks/admin.py` asks for, that its figures decide its exit status, and what `benchmarks/seed.py` makes."""

from __future__ import annotations

import os
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import psycopg
import pytest
from django.test import Client
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from benchmarks import admin
from benchmarks.admin import Measured, Page
from django_durable.admin import filters
from django_durable.admin.look_only import CappedPaginator
from django_durable.models import Tally, Worker
from tests.admin.test_run_list import make_troubles
from tests.admin.world import make_run, make_schedule, make_worker
from tests.app.workflows import doubling

ROOT = Path(__file__).resolve().parents[2]
POSTGRES = os.environ.get("DURABLE_TEST_DATABASE_URL", "")
STATUSES = {"queued", "scheduled", "running", "waiting", "paused", "blocked", "succeeded", "failed", "cancelled"}


def run(script: str, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("DURABLE_", "DJANGO_"))}
    command = [sys.executable, f"benchmarks/{script}", *options]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=110, check=False)


def test_each_kind_of_page_is_asked_for() -> None:
    """How fast is not the question here: others work on this machine, and there are a thousandth of the runs."""
    done = run("admin.py", "--runs", "1000", "--asks", "1", "--goal", "60000")
    assert done.returncode == 0, done.stdout + done.stderr
    for label in (
        "runs  ", "runs: status = ", "runs: trouble = ", "runs: reason = ", "runs: created = ", "runs: workflow = ",
        "runs: queue = ", "runs: search for an id", "runs: search for a key", "runs: search for a tag",
        "a run with 2,000 entries", "a run with children", "runs: export all that match", "runs: of a parent",
        "overview ", "workflows ", "schedule_changelist", "schedule_change ", "worker_changelist", "worker_change ",
        "app_list", "a run's history ", "at night: trouble + workflow ", "at night: trouble + queue ",
        "at night: trouble + status ", "at night: status + reason ", "at night: status + queue ",
        "at night: workflow + status ", "at night: workflow + created ", "at night: worker ",
    ):  # fmt: skip
        assert f"\n{label}" in done.stdout
    assert done.stdout.count("\noverview: its fragment ") == 2, "what needs a person, and the charts"
    assert done.stdout.endswith("\n0 missed\n")


def test_what_the_overview_and_the_workflows_lead_to_is_asked_for(admin_client: Client) -> None:
    """Of a night in which all is wrong, so that each of their links is there."""
    make_troubles()
    make_run("running", leased_by=make_worker(queues=["default"]).pk)
    make_run(queue="idle")
    minute = timezone.now().replace(second=0, microsecond=0)
    Tally.objects.create(kind=Tally.RUNS, minute=minute, workflow="app.doubling", queue="default", failed=3)
    linked = set()
    for name in ("overview", "workflows"):
        for href in admin.seen(admin_client, reverse(f"admin:django_durable_{name}"), "href"):
            if urlsplit(href).path == admin.runs_url():
                linked.add(tuple(parse_qsl(urlsplit(href).query)))
    several = {one for one in linked if len(one) > 1 or [name for name, _ in one] == ["worker"]}
    assert [one for one in several if not any(is_of(kind, dict(one)) for kind in admin.AT_NIGHT)] == []
    assert [kind for kind in admin.AT_NIGHT if not any(is_of(kind, dict(one)) for one in several)] == []


def is_of(kind: dict[str, list[str]], chosen: dict[str, str]) -> bool:
    return kind.keys() == chosen.keys() and all(value in (kind[name] or [value]) for name, value in chosen.items())


def test_of_each_kind_of_them_all_that_there_are_are_asked_for(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filters, "workflows", lambda: {doubling.name: doubling})
    worker = make_worker(queues=["vip"])
    found = [[dict(parse_qsl(urlsplit(page.url).query)) for page in group] for group in admin.at_night(admin_client)]
    assert [len(group) for group in found] == [2, 2, 4, 8, 6, 1, 1, 2]
    assert {"status": "running", "queue": "vip"} in found[3]
    assert found[6:] == [
        [{"worker": str(worker.pk)}],
        [{"trouble": "unserved", "queue": queue} for queue in ("default", "vip")],
    ]


def test_of_many_those_are_that_have_most_runs_and_fewest(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filters, "workflows", lambda: dict.fromkeys("abcde", doubling))
    for count, name in enumerate("ecadb"):
        for _ in range(count):
            make_run(workflow=name)
    assert admin.choices(admin_client)["workflow"] == ["b", "d", "c", "e"]


def test_nobody_serves_a_queue_where_that_is_the_question(admin_client: Client) -> None:
    make_worker(queues=["default"])
    run, found = make_run(), []
    for page in chain.from_iterable(admin.at_night(admin_client)):
        if page.url.endswith("?trouble=unserved&queue=default"):
            found.append(list(admin_client.get(page.url).context["cl"].result_list))
    assert found == [[run]]
    assert Worker.objects.get().queues == ["default"]


urlpatterns: list[Any] = []


@pytest.mark.urls(__name__)
def test_a_page_that_is_not_there_is_no_page_that_comes_fast(db: None) -> None:
    make_schedule()
    make_worker()
    with pytest.raises(NoReverseMatch):
        list(admin.others())


def test_what_is_promised_is_what_it_holds_the_pages_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without arguments, as `make bench-admin` calls it."""
    held: list[Any] = []
    monkeypatch.setattr(admin, "seeded", lambda runs: nullcontext(held.append(runs)))
    monkeypatch.setattr(admin, "measure_all", held.append)
    monkeypatch.setattr(admin, "report", lambda _found, options: held.append(options.goal) or 7)
    assert admin.main([]) == 7
    assert [*held, admin.QUERIES_MOST] == [1_000_000, 20, 200, 12]


def test_the_runs_before_those_that_a_list_reaches_are_asked_for(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its link is there where there are more than ten thousand of them."""
    monkeypatch.setattr(CappedPaginator, "most", 2)
    oldest, _, _ = (make_run() for _ in range(3))
    [[page]] = [group for group in admin.linked(admin_client) if group[0].label.startswith("runs: until = ")]
    assert page.label == f"runs: until = {oldest.pk}"
    assert [run.pk for run in admin_client.get(page.url).context["cl"].result_list] == [oldest.pk]


def measured(ms: list[float], queries: int = 12) -> Measured:
    return Measured(Page("a page", "/"), ms, queries)


@pytest.mark.parametrize(
    ("found", "status"),
    [
        (measured([1, 200, 900]), 0),
        (measured([1, 201, 201]), 1),
        (measured([1, 1, 1], queries=13), 1),
    ],
    ids=["met", "slow", "too many queries"],
)
def test_a_miss_is_the_exit_status(found: Measured, status: int, capsys: pytest.CaptureFixture[str]) -> None:
    well = measured([1, 1, 1])
    assert admin.report([well, found, well], Namespace(goal=200.0, explain=False)) == status
    assert ("missed" in capsys.readouterr().out.splitlines()[2]) is bool(status)


@pytest.fixture
def database() -> Iterator[str]:
    """The URL of a database of its own, gone afterwards."""
    with psycopg.connect(POSTGRES, autocommit=True) as connection:
        connection.execute("CREATE DATABASE seeded")
        try:
            yield urlsplit(POSTGRES)._replace(path="/seeded").geturl()
        finally:
            connection.execute("DROP DATABASE seeded WITH (FORCE)")


def test_the_seeded_runs_are_such_as_the_engine_makes(database: str) -> None:
    done = run("seed.py", "--database", database, "--runs", "2000")
    assert done.returncode == 0, done.stdout + done.stderr
    with psycopg.connect(database) as connection:
        counts = dict(connection.execute("SELECT status, count(*) FROM django_durable_run GROUP BY 1").fetchall())
        assert set(counts) == STATUSES
        assert 1900 < sum(counts.values()) < 2100
        for nothing in NOTHING:
            assert connection.execute(nothing).fetchall() == [], nothing
        for something in SOMETHING:
            assert connection.execute(something).fetchall() != [], something
    again = run("seed.py", "--database", database, "--runs", "2000")
    assert again.returncode == 1
    assert "has runs already" in again.stderr


INSTANT = "('x' || substr(replace(id::text, '-', ''), 1, 12))::bit(48)::bigint"
CLAIMS = (
    "SELECT worker_id AS worker, claimed_at AS at FROM django_durable_claimrecord"
    " UNION ALL SELECT started_by, started_at FROM django_durable_run WHERE started_at NOTNULL"
)
NOTHING = [
    # An id of another instant than that of its row; what is over later than now, or before it began.
    f"SELECT id FROM django_durable_run WHERE abs(extract(epoch FROM created_at) * 1000 - {INSTANT}) > 1",
    "SELECT id FROM django_durable_run WHERE finished_at > now() OR finished_at < started_at",
    "SELECT id FROM django_durable_run WHERE substr(id::text, 15, 1) <> '7'",
    "SELECT path FROM django_durable_journalentry j JOIN django_durable_run r ON r.id = j.run_id"
    " WHERE j.started_at < r.started_at OR j.finished_at < j.started_at OR j.finished_at > r.finished_at",
    f"SELECT run_id FROM django_durable_payload WHERE data LIKE '%{ROOT}%'",
    # An attempt that took no time: each took 0.8 seconds, by clocks that are milliseconds apart.
    "SELECT run_id FROM django_durable_logline WHERE attempt NOTNULL AND seconds < 0.7",
    # What belongs to no run, and children without their parent or outside of its tree.
    *(
        f"SELECT run_id FROM django_durable_{table} EXCEPT SELECT id FROM django_durable_run"
        for table in ("journalentry", "payload", "tag", "event", "idempotencykey", "claimrecord", "logline")
    ),
    "SELECT c.id FROM django_durable_run c LEFT JOIN django_durable_run p ON p.id = c.parent_id"
    " WHERE c.parent_id NOTNULL AND (p.id IS NULL OR c.root_id <> p.root_id)",
    # A worker who runs something and is not there.
    "SELECT leased_by FROM django_durable_run WHERE status = 'running'"
    " EXCEPT SELECT id FROM django_durable_worker WHERE stopped_at IS NULL",
    # A claim by somebody who was not alive then, or at a time when there was nothing to claim.
    f"SELECT c.at FROM ({CLAIMS}) c LEFT JOIN django_durable_worker w ON w.id = c.worker"
    " WHERE w.id IS NULL OR c.at < w.started_at OR c.at > coalesce(w.stopped_at, now())",
    "SELECT c.number FROM django_durable_claimrecord c JOIN django_durable_run r ON r.id = c.run_id"
    " WHERE c.number > r.claims OR c.claimed_at < r.started_at OR c.claimed_at > r.finished_at"
    " OR c.lost_at <= c.claimed_at OR (c.lost_at IS NOT NULL AND c.number = r.claims)",
    # A run that was claimed again of which nobody knows it, or that is with somebody else than its last claim says.
    "SELECT r.id FROM django_durable_run r WHERE r.claims > 1 AND r.claims - 1 >"
    " (SELECT count(*) FROM django_durable_claimrecord c WHERE c.run_id = r.id AND c.number > 1)",
    "SELECT r.id FROM django_durable_run r JOIN django_durable_claimrecord c ON c.run_id = r.id AND c.number = r.claims"
    " WHERE r.status = 'running' AND r.leased_by <> c.worker_id",
    # A line that was said before its run began, or after it was over.
    "SELECT l.message FROM django_durable_logline l JOIN django_durable_run r ON r.id = l.run_id"
    " WHERE l.at < r.started_at OR l.at > r.finished_at",
]
SOMETHING = [
    "SELECT 1 FROM django_durable_journalentry GROUP BY run_id HAVING count(*) = 2000",
    "SELECT 1 FROM django_durable_payload WHERE kind = 'error' AND data LIKE '%Traceback%'",
    "SELECT 1 FROM django_durable_run WHERE parent_id NOTNULL",
    "SELECT 1 FROM django_durable_run WHERE created_at < now() - interval '4 weeks'",
    "SELECT 1 FROM django_durable_tag WHERE name <> 'customer-1' AND name LIKE 'customer-%'",
    "SELECT 1 FROM django_durable_audit WHERE verb = 'cancel'",
    "SELECT 1 FROM django_durable_schedule s JOIN django_durable_fire f ON f.schedule_id = s.id",
    "SELECT 1 FROM django_durable_tally WHERE failed > 0",
    # Of the run with the long journal as well, whose page is measured.
    "SELECT 1 FROM django_durable_run r JOIN django_durable_claimrecord c ON c.run_id = r.id"
    " WHERE r.workflow = 'reports.yearly' AND r.claims = 2 AND c.number = 1 AND c.lost_at NOTNULL",
    "SELECT 1 FROM django_durable_run r JOIN django_durable_logline l ON l.run_id = r.id"
    " WHERE r.workflow = 'reports.yearly' HAVING count(*) = 200",
    "SELECT 1 FROM django_durable_claimrecord HAVING count(*) BETWEEN 0.2 * (SELECT count(*) FROM django_durable_run)"
    " AND 0.5 * (SELECT count(*) FROM django_durable_run)",
    "SELECT 1 FROM django_durable_claimrecord WHERE lost_at NOTNULL GROUP BY lost_at - claimed_at HAVING count(*) > 1",
    "SELECT 1 FROM django_durable_logline"
    " HAVING count(DISTINCT run_id) > 0.2 * (SELECT count(*) FROM django_durable_run)",
    "SELECT 1 FROM django_durable_logline WHERE attempt NOTNULL AND seconds NOTNULL",
    "SELECT 1 FROM django_durable_logline WHERE attempt IS NULL AND message LIKE 'order %: packed as %'",
]
