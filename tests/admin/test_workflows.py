"""The workflows: what is known of each and by whom, how it goes with it, and what it costs to look."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from html import escape
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from django_durable import Retry, durable_workflow
from django_durable.admin import workflows as module
from django_durable.admin.finding import least_id
from django_durable.client import backlogs as counting
from django_durable.core.histogram import bucket_of
from django_durable.models import Hold, Run, Tally
from django_durable.workflows.definition import Workflow
from django_durable.workflows.options import WorkflowOptions
from django_durable.workflows.registry import declared, workflows
from tests.admin.conftest import LOOK, Person
from tests.admin.overviews import links
from tests.admin.pages import judge, list_url, text_of
from tests.admin.test_hostile import CORPUS
from tests.admin.world import make_full_run, make_run, make_worker

PAGE = "/admin/django_durable/run/workflows/"
QUERIES_MOST = 12


def limited(ctx: Any) -> None: ...


# In no registry: what it is would be the business of other tests as well.
LIMITED: Workflow[Any, Any] = Workflow(limited, WorkflowOptions(
    name="page.limited", queue="vip", max_concurrency=3, rate="100/m", timeout=7200, cron="0 6 * * *",
    concurrency_key=lambda **_: "all", retry=Retry(max_attempts=1), step_retry=Retry(max_attempts=4, initial=5),
    aliases=["page.narrow"], on_failure=limited, compensate_on_cancel=False, strict=True,
))  # fmt: skip


LATE: Workflow[Any, Any] = Workflow(limited, WorkflowOptions(
    name="page.late", debounce=10, retention=3 * 86_400, priority=7,
))  # fmt: skip


@pytest.fixture(autouse=True)
def _declared(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, known in (("declared", declared()), ("workflows", workflows())):
        monkeypatch.setattr(module, name, lambda known=known: {**known, LIMITED.name: LIMITED, LATE.name: LATE})


@durable_workflow(name="page.now", aliases=["page.before"])
def renamed(ctx: Any) -> None: ...


def card(client: Client, name: str) -> str:
    """What the page says of one workflow."""
    page = client.get(PAGE).content.decode()
    [found] = [part for part in page.split('<li class="durable-card">')[1:] if f"<bdi>{name}</bdi></a></h3>" in part]

    class Part:
        content = found.split("</section>")[0].encode()

    return text_of(Part())


def tally(**counts: Any) -> None:
    now = timezone.now().replace(second=0, microsecond=0)
    Tally.objects.create(**{"kind": "runs", "minute": now, "workflow": "page.now", "queue": "default", **counts})


def test_the_page_has_its_address_and_its_tab(boss: Client) -> None:
    assert reverse("admin:django_durable_workflows") == PAGE
    response = boss.get(PAGE)
    assert response.status_code == 200 and judge(response) == []
    assert f'<a href="{PAGE}" aria-current="page">' in response.content.decode()
    assert boss.post(PAGE).status_code == 405


def test_a_card_says_what_the_code_says(boss: Client) -> None:
    said = card(boss, "page.limited")
    for part in ("queue vip", "at a time 3", "rate 100/m", "timeout 2 h", "schedule 0 6 * * * UTC", "limited by"):
        assert part in said
    for part in ("attempts of a run 1", "attempts of a step 4, 5 s to 20 s apart", "after a failure limited"):
        assert part in said
    for part in ("when cancelled nothing is undone", "changed code is blocked (strict)", "was called page.narrow"):
        assert part in said
    said = card(boss, "page.late")
    for part in ("debounce 10 s", "kept for 3 d", "priority 7"):
        assert part in said
    assert "app app" in card(boss, "app.doubling") and "app test_workflows" in card(boss, "page.now")
    assert "attempts of a step 3, 1 s to 2 s apart" in card(boss, "page.now")
    assert "Nothing is live, and no worker started or ended any in the last day." in said


def test_who_knows_a_workflow_is_told_where_not_everybody_does(boss: Client) -> None:
    assert "no worker knows it" not in text_of(boss.get(PAGE))
    assert "No worker is alive" in text_of(boss.get(PAGE))
    make_worker(workflows=["page.before", "elsewhere.only"], version="v41")
    make_worker(workflows=["page.now"], version="v42")
    make_worker(workflows=["dead.one"], heartbeat_at=timezone.now() - timedelta(hours=1))
    assert "no worker knows it" in card(boss, "page.limited")
    said = card(boss, "page.now")
    assert "no worker knows it" not in said and "v42 , v41" in said
    said = card(boss, "elsewhere.only")
    assert "not in this process" in said and "v41" in said
    page = boss.get(PAGE).content.decode()
    assert "dead.one" not in page and "<bdi>page.before</bdi></a></h3>" not in page


def test_of_many_versions_the_latest_are_named_and_the_others_counted(boss: Client) -> None:
    """Two processes of one version know it by that once, and one that tells of none does not count."""
    now = timezone.now()
    for number, version in enumerate(("v1", "v2", "", "v3", "v2", "v4", "v5")):
        # Which was started last their ids tell.
        make_worker(id=least_id(now + timedelta(minutes=number)), workflows=["page.now"], version=version)
    assert "workers' version v5 , v4 , v2 , +2 attempts of a run" in card(boss, "page.now")


class Said(list[str]):
    """What a worker tells, and how often that was gone through."""

    times = 0

    def __iter__(self) -> Iterator[str]:
        self.times += 1
        return super().__iter__()


def test_what_a_worker_tells_is_gone_through_once(boss: Client) -> None:
    """However much it is: a fleet of hundreds of processes that each tell of hundreds of workflows."""
    workers = [make_worker(workflows=[f"elsewhere.w{number}" for number in range(30)]) for _ in range(3)]
    for worker in workers:
        worker.workflows = Said(worker.workflows)
    known = {line.name: line.workers for line in module._known(workers)}
    assert [worker.workflows.times for worker in workers] == [1, 1, 1]
    assert known["elsewhere.w7"] == workers and known["page.now"] == []


def test_counts_by_live_state_are_of_all_names_and_lead_to_the_runs(boss: Client) -> None:
    for status, count in {"queued": 2, "running": 1, "waiting": 1, "scheduled": 3, "paused": 1, "blocked": 1}.items():
        for _ in range(count):
            make_run(status, workflow="page.now")
    make_run("queued", workflow="page.before")
    make_run("queued", workflow="page.now", limit_key="page.now")
    make_run("waiting", workflow="page.now", wake_at=timezone.now() + timedelta(hours=1))
    make_run("failed", workflow="page.now")
    said = card(boss, "page.now")
    for part in ("queued 4", "running 1", "waiting 2", "scheduled 3", "paused 1", "blocked 1"):
        assert part in said, part
    assert "?workflow=page.now&status=scheduled" in links(boss, PAGE)["scheduled 3"]
    assert "queued 4" not in links(boss, PAGE), "of one name the list has three"
    assert "no worker started or ended any" in said
    assert "Nothing is live" in card(boss, "page.limited")


def test_nobody_counts_without_end(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "MOST", 4)
    for _ in range(5):
        make_run("queued", workflow="page.now")
    assert "queued 5+" in card(boss, "page.now")
    assert "queued 0+" in card(boss, "page.limited"), "it may have some behind these"
    Run.objects.filter(pk=Run.objects.first().pk).delete()  # type: ignore[union-attr]
    assert "queued 4" in card(boss, "page.now") and "+" not in card(boss, "page.now")


def test_the_last_day(boss: Client) -> None:
    tally(started=10, succeeded=6, failed=2, cancelled=1)
    tally(kind="seconds", name=str(bucket_of(2.0)), succeeded=6, failed=1)
    tally(kind="seconds", name=str(bucket_of(90.0)), failed=1)
    tally(kind="step", name="charge card", failed=3)  # of its runs one was resumed
    tally(workflow="page.limited", minute=timezone.now() - timedelta(hours=25), started=1)
    said = card(boss, "page.now")
    for part in ("started 10", "succeeded 6", "failed 2", "cancelled 1", "failing 25.0 %"):
        assert part in said, part
    assert "fails most in charge card × 3" in said  # noqa: RUF001
    assert "half within 1.9 s 95 % within 1 min 29 s" in said, "each right within a tenth"
    assert "nothing is live" in said
    assert "no worker started or ended any" in card(boss, "page.limited")


def test_a_figure_of_the_last_day_leads_to_runs_where_these_are_as_many(boss: Client) -> None:
    """Also those started and ended in it that were created before: only of failures an index knows when they were."""
    tally(started=10, succeeded=6, failed=2, cancelled=1)
    page = boss.get(PAGE).content.decode()
    [found] = [part for part in page.split('<li class="durable-card">')[1:] if "<bdi>page.now</bdi></a></h3>" in part]
    figures = dict(re.findall(r"<dt>(\w+)</dt><dd>(.*?)</dd>", found.split("</section>")[0]))
    failed = f'<a href="{escape(list_url("?workflow=page.now&trouble=day"))}">2</a>'
    assert {name: figures[name] for name in ("started", "succeeded", "cancelled", "failed")} == {
        "started": "10", "succeeded": "6", "cancelled": "1", "failed": failed,
    }  # fmt: skip
    created = (
        f'<a href="{escape(list_url("?workflow=page.now&created=1d"))}" aria-label="Runs of page.now created in the'
    )
    assert f'{created} last day">created in the last day</a>' in found


def test_on_the_day_of_a_rename_the_counts_of_both_names_are_one(boss: Client) -> None:
    tally(workflow="page.before", started=5, succeeded=1, failed=3)
    tally(workflow="page.before", kind="seconds", name=str(bucket_of(2.0)), succeeded=1, failed=3)
    tally(workflow="page.before", kind="step", name="charge card", failed=3)
    tally(started=2, failed=1)
    tally(kind="seconds", name=str(bucket_of(90.0)), failed=1)
    tally(kind="step", name="charge card", failed=1)
    said = card(boss, "page.now")
    parts = ("started 7", "succeeded 1", "failed 4", "failing 80.0 %", "half within 1.9 s", "95 % within 1 min 29 s")
    for part in (*parts, "in charge card × 4"):  # noqa: RUF001
        assert part in said, part
    page = boss.get(PAGE).content.decode()
    assert escape(list_url("?workflow=page.now&trouble=day")) not in page, "there is one only"
    Tally.objects.filter(workflow="page.before").update(failed=0)
    assert escape(list_url("?workflow=page.now&trouble=day")) in boss.get(PAGE).content.decode()


def test_a_figure_of_nothing_leads_nowhere(boss: Client) -> None:
    tally(started=1)
    page = boss.get(PAGE).content.decode()
    assert "trouble=day" not in page and "status=succeeded" not in page


def test_what_is_held_is_told(boss: Client) -> None:
    Hold.objects.create(kind="workflow", name="page.before", actor="ann", reason="a bad deploy")
    Hold.objects.create(kind="queue", name="vip")
    assert "page.now held" in card(boss, "page.now")
    assert "queue held" in card(boss, "page.limited")
    page = text_of(boss.get(PAGE))
    assert "workflow page.before" in page and "ann" in page and "a bad deploy" in page


def test_of_very_many_queues_the_first_are_shown_and_that_there_are_more(
    boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_worker(queues=["a", "b"])
    shown = len(boss.get(PAGE).context["queues"])
    assert "There are more; these are the first." not in text_of(boss.get(PAGE))
    monkeypatch.setattr(module, "QUEUES_SHOWN", shown - 1)
    assert "There are more; these are the first." in text_of(boss.get(PAGE))
    Hold.objects.create(kind=Hold.QUEUE, name="a")
    assert "There are more; these are the first." not in text_of(boss.get(PAGE)), "what is held is told above"


def test_an_empty_installation(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("declared", "workflows"):
        monkeypatch.setattr(module, name, dict)
    assert "No workflow is registered here" in text_of(boss.get(PAGE))


def test_of_very_many_the_first_are_shown(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = make_worker(workflows=["0.first", "~.last"])
    count, more = len(list(module._known([worker]))), "There are more; these are the first."
    for shown in (count, count - 1):
        monkeypatch.setattr(module, "SHOWN", shown)
        page = boss.get(PAGE).content.decode()
        assert page.count('<li class="durable-card">') == shown and "<bdi>0.first</bdi></a></h3>" in page
        assert ("<bdi>~.last</bdi></a></h3>" in page) is (more not in page) is (shown == count)


@pytest.mark.parametrize("count", [0, 1, 12])
def test_it_costs_a_few_queries_however_much_there_is(boss: Client, count: int) -> None:
    for number in range(count):
        make_run("queued", workflow=f"page.w{number}", queue=f"q{number}")
        make_worker(workflows=[f"page.w{number}"], queues=[f"q{number}"], version=f"v{number}")
        Hold.objects.create(kind="queue", name=f"q{number}")
        tally(workflow=f"page.w{number}", started=1)
    with CaptureQueriesContext(
        connection,
    ) as queries:
        boss.get(PAGE)
    assert len(queries) <= QUERIES_MOST


@pytest.mark.parametrize("what", CORPUS)
def test_it_escapes_whatever_anybody_called_anything(boss: Client, what: str) -> None:
    text = CORPUS[what]
    make_full_run(text, "waiting")
    tally(kind="step", name=text[:200], failed=2)
    tally(failed=2)
    for kind in ("queue", "workflow"):
        Hold.objects.create(kind=kind, name=text[:200], actor=text[:150], reason=text)
    response = boss.get(PAGE)
    assert response.status_code == 200 and judge(response) == []


def test_who_may_look_sees_no_buttons(person: Person) -> None:
    Hold.objects.create(kind="queue", name="vip")
    client = person(*LOOK)
    page = client.get(PAGE).content.decode()
    assert "page.limited" in page
    for verb in ("hold", "release", "start"):
        assert reverse(f"admin:django_durable_workflows_{verb}") not in page
