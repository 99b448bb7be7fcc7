"""The overview: what needs a person, how much of it, and the way to it."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from django_durable.admin import needs, troubles
from django_durable.client import standing
from django_durable.models import Fire, Hold, Tally
from tests.admin.conftest import Person
from tests.admin.overviews import FRAGMENT, HOUR, MINUTE, SCHEDULES, links, look, midnight, rows, tally
from tests.admin.pages import list_url, run_url, text_of
from tests.admin.test_run_list import make_troubles
from tests.admin.world import make_entry, make_old, make_run, make_schedule, make_worker


@pytest.mark.usefixtures("worker")
def test_blocked_and_failed_runs_lead_to_their_lists(boss: Client) -> None:
    for reason in ("crashed", "crashed", "diverged"):
        make_run("blocked", block_reason=reason)
    make_run("failed")
    make_run("failed", finished_at=timezone.now() - timedelta(days=2))
    found = links(boss)
    assert found["3 runs are blocked"] == list_url("?status=blocked")
    assert found["crashed: 2"] == list_url("?status=blocked&reason=crashed")
    assert found["diverged: 1"] == list_url("?status=blocked&reason=diverged")
    assert found["1 run has failed today"] == list_url("?trouble=today")


def failing(client: Client) -> list[str]:
    """What is named in the line of those that failed."""
    line = client.get(FRAGMENT).content.decode().split('id="durable-need-failed"')[1].split("</section>")[0]
    return [unescape(name) for name in re.findall(r"<bdi>(.*?)</bdi>", line)]


@pytest.mark.usefixtures("worker")
def test_the_workflows_that_fail_most_today_are_named_with_their_worst_step(boss: Client) -> None:
    for workflow in ("shop.checkout", "app & <co>"):
        make_run("failed", workflow=workflow)
    tally(workflow="shop.checkout", failed=1_100)
    tally(workflow="shop.checkout", queue="vip", failed=37, succeeded=5)
    for step, count in {"charge": 1_135, "reserve": 2, "": 2_000}.items():
        tally(kind=Tally.STEP, workflow="shop.checkout", name=step, failed=count)
    tally(workflow="app & <co>", failed=1)
    tally(workflow="app.fine", succeeded=7)
    tally(workflow="app.before", minute=midnight() - MINUTE, failed=9)
    assert failing(boss) == ["shop.checkout: 1,137 failures, 1,135 in charge", "app & <co>: 1 failure"]
    found = links(boss)
    assert found["app & <co>: 1 failure"] == list_url("?trouble=today&workflow=app+%26+%3Cco%3E")
    text = "shop.checkout: 1,137 failures, 1,135 in charge"
    assert found[text] == list_url("?trouble=today&workflow=shop.checkout")


@pytest.mark.usefixtures("worker")
def test_whoever_is_woken_by_night_sees_what_failed_before_midnight(
    boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is counted, named and led to is the last day."""
    # Two o'clock, whenever the tests are run: what failed just before midnight is of the last day.
    today = midnight()
    now, yesterday = today + 2 * HOUR, today - MINUTE
    monkeypatch.setattr("django_durable.core.clock.utcnow", lambda: now)
    before = make_old("failed", HOUR, finished_at=yesterday, workflow="shop.checkout")
    make_run("failed", finished_at=now - 25 * HOUR)
    tally(workflow="shop.checkout", minute=yesterday, failed=3)
    assert "Nothing needs you." in look(boss), "by day"
    monkeypatch.setattr(troubles, "NIGHT_ENDS", 24)
    found = links(boss)
    assert found["shop.checkout: 3 failures"] == list_url("?trouble=day&workflow=shop.checkout")
    url = found["1 run has failed in the last day"]
    assert list(boss.get(url).context["cl"].result_list) == [before]


@pytest.mark.usefixtures("worker")
def test_by_night_too_it_says_what_may_be_wrong(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(troubles, "NIGHT_ENDS", 24)
    monkeypatch.setattr(standing, "OTHERS_MOST", 1)
    for _ in range(2):
        make_run("failed", finished_at=timezone.now() - timedelta(hours=25))
    tally(workflow="shop.checkout", failed=1)
    found = links(boss)
    assert found["Runs may have failed in the last day"] == list_url("?trouble=day")
    assert found["shop.checkout: 1 failure"] == list_url("?trouble=day&workflow=shop.checkout")


@pytest.mark.usefixtures("worker")
def test_beside_very_many_children_that_need_nobody_those_that_failed_have_their_button(
    boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing, "OTHERS_MOST", 2)
    failed, parent = make_run("failed", workflow="shop.checkout"), make_run("waiting", waiting_on="join:map")
    tally(workflow="shop.checkout", failed=1)
    for number in range(3):
        make_entry(parent, f"map[{number}]", number, kind="child", status="failed")
        make_run("failed", parent=parent, parent_path=f"map[{number}]")
    [need] = [need for need in boss.get(FRAGMENT).context["needs"] if need.id == "failed"]
    [named] = need.named
    assert need.button is not None and named.button is not None
    for url in (need.url, named.url):
        assert list(boss.get(url).context["cl"].result_list) == [failed]


@pytest.mark.usefixtures("worker")
def test_five_that_fail_are_named_and_those_that_fail_as_often_by_name(boss: Client) -> None:
    make_run("failed")
    for name, count in {"f": 1, "b": 2, "a": 2, "e": 2, "d": 2, "c": 2, "z": 3}.items():
        tally(workflow=name, failed=count)
    assert [text.split(":")[0] for text in failing(boss)] == ["z", "a", "b", "c", "d"]


@pytest.mark.usefixtures("worker")
def test_where_nobody_has_counted_the_line_stands_alone(boss: Client) -> None:
    make_run("failed")
    tally(succeeded=7)
    assert failing(boss) == []
    assert "1 run has failed today" in links(boss)


def test_a_number_leads_to_as_many_rows(boss: Client) -> None:
    """To those that it counts, and so many of them as an action on all that match is done to."""
    make_troubles()
    for name, more in {"late": {"next_fire_at": timezone.now() - HOUR}, "wrong": {"problem": "no"}, "fine": {}}.items():
        make_schedule(name=name, **more)
    found = {text: url for text, url in links(boss).items() if re.search(r"^\d+ \D|: \d+$", text) and "?" in url}
    assert len(found) > 10
    for text, url in found.items():
        [number] = re.findall(r"\d+", text)
        assert len(boss.get(url).context["cl"].result_list) == int(number), (text, url)


@pytest.mark.usefixtures("worker")
def test_runs_that_stick_are_named(boss: Client) -> None:
    ended, begun = timezone.now() - HOUR, timezone.now() - 2 * HOUR
    lapsed = make_run("running", lease_expires_at=ended)
    still = make_run("running", started_at=begun, queued_at=begun)
    make_run("running")
    make_run("scheduled", wake_at=ended)
    make_run("waiting", wake_at=ended, waiting_on="sleep:night")
    found = links(boss)
    assert found["1 run has lost its worker, and nobody has taken it up"] == list_url("?trouble=lapsed")
    assert found[f"app.doubling {str(lapsed.pk)[-12:]}"] == run_url(lapsed)
    assert found["1 run is worked on and has journaled nothing for an hour"] == list_url("?trouble=still")
    assert found[f"app.doubling {str(still.pk)[-12:]}"] == run_url(still)
    assert found["2 runs are due and were not woken"] == list_url("?trouble=overdue")
    assert found["scheduled: 1"] == list_url("?trouble=overdue&status=scheduled")
    assert found["waiting: 1"] == list_url("?trouble=overdue&status=waiting")


def make_sticking(lapsed: int, still: int) -> None:
    now = timezone.now()
    for _ in range(lapsed):
        make_run("running", lease_expires_at=now - HOUR)
    for _ in range(still):
        make_run("running", started_at=now - 2 * HOUR, queued_at=now - 2 * HOUR)


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize(
    ("lapsed", "still", "counts"),
    [(2, 2, ["2", "2"]), (3, 2, ["2+", "2"]), (3, 1, ["2+", "1"]), (1, 4, ["1", "2+"]), (9, 9, ["2+", "2+"])],
)
def test_runs_that_stick_are_counted_by_kind(
    boss: Client, monkeypatch: pytest.MonkeyPatch, lapsed: int, still: int, counts: list[str]
) -> None:
    monkeypatch.setattr(needs, "COUNTED", 2)
    make_sticking(lapsed, still)
    kinds = ("lost (?:its|their) worker", "journaled nothing for an hour")
    found = [text.split()[0] for kind in kinds for text in links(boss) if re.search(kind, text)]
    assert found == counts


@pytest.mark.usefixtures("worker")
def test_what_may_be_wrong_is_said_and_leads_to_a_list_that_looks_further(
    boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing, "OTHERS_MOST", 2)
    now = timezone.now()
    failed, late = make_run("failed"), make_run("scheduled", wake_at=now - HOUR)
    Hold.objects.create(kind=Hold.WORKFLOW, name="app.held", since=now)
    for _ in range(3):
        make_run("failed", finished_at=now - 2 * 24 * HOUR)
        make_run("scheduled", wake_at=now - 2 * HOUR, workflow="app.held")
    found = links(boss)
    assert "Nothing needs you." not in look(boss)
    for text, run in {"Runs may have failed today": failed, "Runs may be due that were not woken": late}.items():
        assert list(boss.get(found[text]).context["cl"].result_list) == [run]


@pytest.mark.usefixtures("worker")
def test_one_of_which_there_may_be_more_is_told_as_many(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing, "OTHERS_MOST", 1)
    for _ in range(2):
        make_run("failed")
        make_run("scheduled", wake_at=timezone.now() - HOUR)
        make_run("blocked")
    found = links(boss)
    assert {"1+ runs have failed today", "1+ runs are blocked", "1+ runs are due and were not woken"} <= set(found)


@pytest.mark.usefixtures("worker")
def test_a_queue_that_nobody_serves(boss: Client) -> None:
    make_run(queue="orders & more")
    make_run(queue="default")
    make_run("scheduled", queue="idle")
    make_run(queue="default", suspect=True)
    found = links(boss)
    assert found["1 run is ready in a queue that no worker serves"] == list_url("?trouble=unserved")
    assert found["orders & more: 1"] == list_url("?trouble=unserved&queue=orders+%26+more")
    # Beside those of the test the table has the queues of all workflows that other tests have declared.
    queues = {unescape(row[0]) for row in rows(boss, "queues")}
    assert {"orders & more no worker", "idle no worker", "default"} <= queues


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("limit_key", [None, "k"])
def test_a_suspect_in_a_queue_that_nobody_serves(boss: Client, limit_key: str | None) -> None:
    """A worker starts the process that it waits for. One that has been started says nothing of others to come."""
    make_worker(queues=["vip"], is_isolated=True)
    run = make_run(queue="vip", suspect=True, queued_at=timezone.now() - 5 * HOUR, limit_key=limit_key)
    found = links(boss)
    assert list(boss.get(found["1 run is ready in a queue that no worker serves"]).context["cl"].result_list) == [run]
    assert list(boss.get(found["vip: 1"]).context["cl"].result_list) == [run]
    assert "vip no worker" in {row[0] for row in rows(boss, "queues")}


def test_an_isolated_process_is_no_worker_for_what_is_ready(boss: Client) -> None:
    make_worker(is_isolated=True, queues=["apart"])
    make_run()
    assert "No worker is alive" in look(boss)
    workflows = boss.get(reverse("admin:django_durable_workflows"))
    assert workflows.context["is_dead"] and "apart" not in str(workflows.context["queues"])


@pytest.mark.usefixtures("worker")
def test_schedules_that_are_late_failing_or_cannot_fire(boss: Client, person: Person) -> None:
    late = make_schedule(name="hourly", next_fire_at=timezone.now() - HOUR)
    make_schedule(name="broken", problem="There is no zone Mars.")
    make_schedule(name="fine", next_fire_at=timezone.now() + HOUR)
    failing = make_schedule(name="nightly", next_fire_at=timezone.now() + HOUR)
    off = make_schedule(name="off", enabled=False)
    for schedule in (failing, off):
        Fire.objects.create(
            schedule=schedule, scheduled_for=timezone.now(), fired_at=timezone.now(), run_id=make_run("failed").pk,
            outcome="fired",
        )  # fmt: skip
    found = links(boss)
    assert found["3 schedules are late, failing or cannot fire"] == SCHEDULES + "?status=attention"
    assert [row.name for row in boss.get(SCHEDULES + "?status=attention").context["cl"].result_list] == [
        "broken", "hourly", "nightly"
    ]  # fmt: skip
    assert found["app.doubling: hourly"] == reverse("admin:django_durable_schedule_change", args=[late.pk])
    assert "schedule" not in look(person("view_run", name="ben")).lower().replace("scheduled", "")


@pytest.mark.parametrize(
    ("status", "names"),
    [
        ("attention", "failing late mixed off-plan"),
        ("late", "late"),
        ("broken", "off-plan"),
        ("failing", "failing mixed"),
        ("enabled", "failing fine late mixed off-plan"),
        ("disabled", "off"),
        ("nonsense", ""),
    ],
)
def test_schedules_are_found_by_how_they_stand(boss: Client, status: str, names: str) -> None:
    now = timezone.now()
    make_schedule(name="late", next_fire_at=now - HOUR)
    make_schedule(name="off-plan", problem="no")
    make_schedule(name="off", enabled=False, problem="no", next_fire_at=now - HOUR)
    runs = {"failing": ["failed"], "fine": ["failed", "succeeded"], "mixed": ["succeeded", "blocked", "cancelled"]}
    for name, statuses in runs.items():
        schedule = make_schedule(name=name)
        for number, one in enumerate(statuses):
            when = now + number * MINUTE
            Fire.objects.create(
                schedule=schedule, scheduled_for=when, fired_at=when, run_id=make_run(one).pk, outcome="fired"
            )
    page = boss.get(f"{SCHEDULES}?status={status}")
    assert [row.name for row in page.context["cl"].result_list] == names.split()
    assert "There is no schedule yet" not in text_of(page)
    # As their marks say.
    marks = {"late": "late", "broken": "cannot fire", "failing": "failing", "disabled": "disabled"}
    for name in names.split() if status in marks else ():
        before, after = page.content.decode().split(f">{name}<", 1)
        assert marks[status] in before.rsplit("<tr", 1)[1] + after.split("</tr>", 1)[0]
