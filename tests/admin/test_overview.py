"""The overview: what is wrong is said first, with a way to it; and what it costs to look."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html import escape, unescape
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from django_durable.admin import needs, overview
from django_durable.admin.chart import chart
from django_durable.client import standing
from django_durable.client.statistics import Bucket, series
from django_durable.models import Fire, Hold, Run, Tally
from tests.admin.conftest import LOOK, Person
from tests.admin.pages import judge, list_url, run_url, text_of
from tests.admin.test_all_that_match import answer
from tests.admin.test_all_that_match import statuses as statuses_of
from tests.admin.test_run_list import make_troubles
from tests.admin.world import make_run, make_schedule, make_worker

OVERVIEW = "/admin/django_durable/run/overview/"
FRAGMENT, CHARTS = OVERVIEW + "fragment/", OVERVIEW + "charts/"
INDEX = "/admin/django_durable/"
SCHEDULES = "/admin/django_durable/schedule/"
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def look(client: Client, url: str = FRAGMENT) -> str:
    response = client.get(url)
    assert response.status_code == 200
    assert judge(response) == []
    return text_of(response)


def links(client: Client, url: str = FRAGMENT) -> dict[str, str]:
    """Where the text of a link leads to."""
    page = client.get(url).content.decode()
    found = re.findall(r'<a [^>]*?href="([^"]*)"[^>]*>(.*?)</a>', page, re.DOTALL)
    return {" ".join(unescape(re.sub("<.*?>", "", text)).split()): unescape(url) for url, text in found}


def tally(**counts: Any) -> None:
    Tally.objects.create(
        **{"kind": Tally.RUNS, "minute": timezone.now().replace(second=0, microsecond=0), "workflow": "app.doubling",
           "queue": "default", **counts}
    )  # fmt: skip


def test_the_addresses_have_names() -> None:
    names = {"overview": OVERVIEW, "overview_fragment": FRAGMENT, "overview_charts": CHARTS}
    assert {name: reverse(f"admin:django_durable_{name}") for name in names} == names


@pytest.mark.parametrize("url", [OVERVIEW, INDEX])
def test_the_page_and_the_apps_own_show_it_and_how_it_is_refreshed(boss: Client, url: str) -> None:
    page = boss.get(url).content.decode()
    assert judge(boss.get(url)) == []
    for part in ("Needs a person", "Queues", "Workers", "The last hour", "The last day"):
        assert part in page
    assert f'data-durable-refresh="{FRAGMENT}" data-durable-every="5"' in page
    assert f'data-durable-refresh="{CHARTS}" data-durable-every="30"' in page
    assert 'data-durable-pause aria-pressed="false"' in page
    for file in ("refresh.js", "overview.css", "admin.css"):
        assert f"/static/django_durable/{file}" in page


def test_the_apps_page_still_lists_its_models(person: Person) -> None:
    assert "Runs" in look(person(*LOOK), INDEX)
    without = person("view_worker", name="ben").get(INDEX)
    assert "Workers" in text_of(without)
    assert "Needs a person" not in text_of(without)


# --- what is wrong -----------------------------------------------------------------------------


def test_nobody_alive_is_said_first_and_what_to_do(boss: Client) -> None:
    make_worker(host="mill", pid=4711, heartbeat_at=timezone.now() - 10 * MINUTE)
    make_run(queue="orders")
    text = look(boss)
    assert text.startswith("No worker is alive Nothing is worked on until one is started: manage.py durable_worker")
    assert "mill:4711 was heard of last, 10 min ago." in text
    # It is said once, and not for the queue again.
    assert "Nothing else needs you." in text
    assert "no worker" not in text


@pytest.mark.parametrize(
    ("stopped", "told"),
    [(False, "mill:4711 was heard of last, 2 d ago."), (True, "mill:4711 was heard of last: it stopped 2 d ago.")],
)
def test_who_was_heard_of_last_is_named_however_long_ago_and_also_where_it_stopped(
    boss: Client, person: Person, stopped: bool, told: str
) -> None:
    ended = timezone.now() - timedelta(days=2)
    make_worker(host="before", heartbeat_at=ended - HOUR)
    make_worker(host="mill", pid=4711, heartbeat_at=ended, stopped_at=ended if stopped else None)
    text = look(boss)
    assert told in text and "before" not in text
    assert "mill" not in look(person("view_run", name="ben"))


def test_of_two_the_one_that_stopped_later_is_the_last(boss: Client) -> None:
    make_worker(host="silent", heartbeat_at=timezone.now() - 50 * MINUTE)
    stopped = timezone.now() - 5 * MINUTE
    make_worker(host="stopped", heartbeat_at=stopped, stopped_at=stopped)
    assert "stopped:7 was heard of last: it stopped 5 min ago." in look(boss)


def test_where_nobody_was_ever_heard_of_nobody_is_named(boss: Client) -> None:
    assert "heard of last" not in look(boss)


def test_all_is_well(boss: Client) -> None:
    make_worker()
    make_run()
    text = look(boss)
    assert "Nothing needs you." in text
    assert "No worker is alive" not in text


@pytest.fixture
def worker() -> None:
    make_worker(queues=["default"])


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
    make_run("failed")
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


def midnight() -> datetime:
    return timezone.localtime().replace(hour=0, minute=0, second=0, microsecond=0)


# --- what is held ------------------------------------------------------------------------------


def holds(client: Client) -> list[str]:
    """What is said of each."""
    page = client.get(FRAGMENT).content.decode()
    if 'class="durable-held"' not in page:
        return []
    lines = page.split('class="durable-held"')[1].split("</ul>")[0].split("<li>")[1:]
    return [" ".join(unescape(re.sub("<.*?>", "", line)).split()) for line in lines]


@pytest.mark.usefixtures("worker")
def test_what_is_held_is_said_by_whom_since_when_and_why(boss: Client, settings: Any) -> None:
    settings.TIME_ZONE = "Asia/Kolkata"
    since = datetime(2026, 3, 1, 12, tzinfo=UTC)
    Hold.objects.create(kind=Hold.WORKFLOW, name="app & <co>", since=since, actor="ann", reason="wrong <prices>")
    Hold.objects.create(kind=Hold.QUEUE, name="vip", since=since)
    assert holds(boss) == [
        "held queue vip since 2026-03-01 17:30:00",
        "held workflow app & <co> by ann, since 2026-03-01 17:30:00 wrong <prices>",
    ]
    assert links(boss)["workflow app & <co>"] == reverse("admin:django_durable_workflows")
    assert "Nothing needs you." in look(boss), "it is held on purpose"


@pytest.mark.usefixtures("worker")
def test_where_nothing_is_held_nothing_is_said_of_it(boss: Client) -> None:
    assert holds(boss) == []


@pytest.mark.usefixtures("worker")
def test_of_very_many_that_are_held_some_are_told(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "HOLDS_SHOWN", 2)
    for name in "cab":
        Hold.objects.create(kind=Hold.QUEUE, name=name)
    assert [text.split(" since")[0] for text in holds(boss)][:2] == ["held queue a", "held queue b"]
    assert links(boss)["There are more; all of them"] == reverse("admin:django_durable_workflows")


# --- and what is done about it -----------------------------------------------------------------


def resume_forms(client: Client) -> dict[str, tuple[str, dict[str, str]]]:
    """By need, where the button sends what."""
    found = {}
    section = client.get(FRAGMENT).content.decode().split('id="durable-needs"')[1].split("</section>")[0]
    for line in section.split('<li id="durable-need-')[1:]:
        if form := re.search(r'<form method="post" action="([^"]*)".*?</form>', line, re.DOTALL):
            fields = re.findall(r'<input type="hidden" name="(\w+)" value="(\w*)">', form.group())
            found[line.split('"')[0]] = unescape(form.group(1)), dict(fields)
    return found


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("need", ["blocked", "failed"])
def test_they_are_resumed_in_two_clicks(person: Person, need: str) -> None:
    client = person("view_run", "resume_run")
    yesterday = midnight() - MINUTE
    runs = [make_run(status) for status in ("blocked", "blocked", "failed", "failed", "paused", "cancelled")]
    old = make_run("failed", finished_at=yesterday)
    url, fields = resume_forms(client)[need]
    asked = client.post(url, fields)
    assert "Resume: all runs that match" in text_of(asked) and "This can be done to 2 runs." in text_of(asked)
    assert statuses_of(*runs[:4]) == ["blocked", "blocked", "failed", "failed"], "it is asked first"
    done = answer(client, asked, "mended")
    assert "2 runs go on." in text_of(client.get(done.url))
    resumed = {
        "blocked": ["queued", "queued", "failed", "failed"],
        "failed": ["blocked", "blocked", "queued", "queued"],
    }
    assert statuses_of(*runs, old) == [*resumed[need], "paused", "cancelled", "failed"]


def named_forms(client: Client) -> dict[str, tuple[str, dict[str, str]]]:
    """By what the button beside a name says of itself, where it sends what."""
    line = client.get(FRAGMENT).content.decode().split('id="durable-need-failed"')[1].split("</section>")[0]
    found = {}
    for form in re.findall(r"<form .*?</form>", line.split("<ul>")[1], re.DOTALL):
        [label], [url] = re.findall('aria-label="([^"]*)"', form), re.findall('action="([^"]*)"', form)
        fields = re.findall(r'<input type="hidden" name="(\w+)" value="(\w*)">', form)
        found[unescape(label)] = unescape(url), {name: value for name, value in fields if name[:4] != "csrf"}
    return found


@pytest.mark.usefixtures("worker")
def test_what_failed_of_one_workflow_is_resumed_in_two_clicks(person: Person) -> None:
    client = person("view_run", "resume_run")
    mine, other = make_run("failed", workflow="app & <co>"), make_run("failed")
    old = make_run("failed", workflow="app & <co>", finished_at=midnight() - MINUTE)
    tally(workflow="app & <co>", failed=3)
    tally(failed=1)
    forms = named_forms(client)
    assert set(forms) == {"Resume: app & <co>: 3 failures", "Resume: app.doubling: 1 failure"}
    url, fields = forms["Resume: app & <co>: 3 failures"]
    asked = client.post(url, fields)
    assert "Workflow app & <co>" in text_of(asked)
    done = answer(client, asked, "mended")
    assert "1 run goes on." in text_of(client.get(done.url))
    assert statuses_of(mine, other, old) == ["queued", "failed", "failed"]


@pytest.mark.usefixtures("worker")
def test_who_may_not_resume_has_no_button_beside_a_workflow(person: Person) -> None:
    make_run("failed")
    tally(failed=1)
    assert named_forms(person(*LOOK)) == {}


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize(
    ("permissions", "needs"),
    [
        (("view_run", "resume_run"), {"blocked", "failed"}),
        (("change_run", "resume_run"), {"blocked", "failed"}),
        (("view_run", "cancel_run", "pause_run", "rerun_run", "hold_queue"), set()),
        (LOOK, set()),
    ],
)
def test_the_button_is_for_those_who_may_resume(person: Person, permissions: tuple[str, ...], needs: set[str]) -> None:
    client, runs = person(*permissions), [make_run("blocked"), make_run("failed")]
    make_run("running", lease_expires_at=timezone.now() - HOUR)
    assert set(resume_forms(client)) == needs
    if not needs:
        client.post(list_url("?status=blocked"), resume_fields())
        assert statuses_of(*runs) == ["blocked", "failed"]


def resume_fields() -> dict[str, str]:
    return {"action": "resume_selected", "select_across": "1", "_selected_action": "all"}


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("url", [OVERVIEW, INDEX, FRAGMENT])
def test_each_button_has_the_token_and_says_what_it_is_for(boss: Client, url: str) -> None:
    make_run("failed")
    line = boss.get(url).content.decode().split('id="durable-need-failed"')[1].split("</form>")[0]
    assert 'name="csrfmiddlewaretoken"' in line
    assert 'aria-label="Resume: 1 run has failed today"' in line and ">Resume…</button>" in line


@pytest.mark.usefixtures("worker")
def test_one_that_went_on_meanwhile_is_asked_about_no_more(boss: Client) -> None:
    run = make_run("failed")
    url, fields = resume_forms(boss)["failed"]
    Run.objects.filter(pk=run.pk).update(status="succeeded")
    assert "That can be done to none of these runs." in text_of(boss.post(url, fields, follow=True))


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
    found = links(boss)
    assert found["1 run is ready in a queue that no worker serves"] == list_url("?trouble=unserved")
    assert found["orders & more: 1"] == list_url("?trouble=unserved&queue=orders+%26+more")
    # Beside those of the test the table has the queues of all workflows that other tests have declared.
    queues = {unescape(row[0]) for row in rows(boss, "queues")}
    assert {"orders & more no worker", "idle no worker", "default"} <= queues


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


# --- queues and workers ------------------------------------------------------------------------


def rows(client: Client, section: str) -> list[list[str]]:
    page = client.get(FRAGMENT).content.decode()
    table = page.split(f'id="durable-{section}-title"')[1].split("</table>")[0].split("<tbody>")[1]
    cells = [re.findall(r"<t[dh]\b.*?</t[dh]>", row, re.DOTALL) for row in table.split("</tr>")]
    return [[" ".join(re.sub("<.*?>", " ", cell).split()) for cell in row] for row in cells if row]


def test_a_queue_is_a_line(boss: Client) -> None:
    make_worker(queues=["default", "mail"])
    for age in (3, 130):
        make_run(queued_at=timezone.now() - age * MINUTE)
    make_run("running")
    make_run("waiting")
    make_run("scheduled", queue="mail")
    tally(started=40, succeeded=24, failed=6, cancelled=5)
    tally(queue="gone", minute=timezone.now() - HOUR, succeeded=5)
    found = {row[0]: row[1:] for row in rows(boss, "queues")}
    assert found["default"] == ["2", "2 h", "1", "1", "0", "7.0", "20.0 %", "Hold…"]
    assert found["mail"] == ["0", "", "0", "0", "1", "0", "", "Hold…"]
    assert "gone" not in found


def test_of_very_many_queues_those_that_somebody_has_to_see_are_shown(
    boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "QUEUES_SHOWN", 4)
    make_worker(queues=[f"a{number}" for number in range(9)])
    Hold.objects.create(kind=Hold.QUEUE, name="z held")
    tally(queue="y failing", failed=1)
    tally(queue="a8", succeeded=1)
    make_run(queue="x ready")
    make_run("waiting", queue="w waits")
    text = look(boss)
    names = [row[0].removesuffix(" no worker").removesuffix(" held") for row in rows(boss, "queues")]
    assert names == ["a0", "x ready", "y failing", "z held"]
    assert "There are more: those that are held, fail or have runs ready are shown before others." in text


def test_what_is_ready_leads_to_as_many_rows(boss: Client) -> None:
    make_worker(queues=["default", "dead"])
    for suspect in (False, False, True):
        make_run(suspect=suspect)
    make_run(queue="dead", suspect=True, queued_at=timezone.now() - HOUR)
    assert {row[0]: row[1] for row in rows(boss, "queues") if row[0] in ("default", "dead")} == {
        "default": "3", "dead": "1",
    }  # fmt: skip
    page = boss.get(FRAGMENT).content.decode()
    for queue, count in {"default": "3", "dead": "1"}.items():
        url = list_url(f"?status=queued&queue={queue}")
        assert f'<a href="{escape(url)}">{count}</a>' in page
        assert len(boss.get(url).context["cl"].result_list) == int(count)


def test_where_others_fill_what_is_read_nothing_is_said_to_be_none(
    boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing, "OTHERS_MOST", 2)
    for _ in range(3):
        make_run("scheduled", queue="mail")
    assert f'<a href="{escape(list_url("?status=waiting&queue=mail"))}">0+</a>' in boss.get(FRAGMENT).content.decode()


def test_a_worker_is_a_line(boss: Client, person: Person) -> None:
    one = make_worker(host="mill", pid=4711, queues=["orders", "vip"], version="1.2.3", concurrency=8)
    make_worker(host="died", heartbeat_at=timezone.now() - 20 * MINUTE)
    make_worker(host="long gone", heartbeat_at=timezone.now() - 2 * HOUR)
    make_worker(host="stopped", stopped_at=timezone.now())
    for _ in range(3):
        make_run("running", leased_by=one.pk)
    make_run("running", leased_by=uuid4())
    assert rows(boss, "workers") == [
        ["mill", "4711", "alive", "orders , vip", "3/8", "under 15 s ago", "1.2.3"],
        ["died", "7", "silent", "default", "0/32", "20 min ago", ""],
    ]
    assert "mill" not in look(person("view_run", name="ben"))


def test_a_backlog_is_counted_to_an_end(boss: Client) -> None:
    make_worker()
    Run.objects.bulk_create(
        Run(id=uuid4(), status="blocked", block_reason="diverged", workflow="w", queue="default", root_id=uuid4())
        for _ in range(1_002)
    )
    assert "1,000+ runs are blocked" in links(boss)


# --- charts ------------------------------------------------------------------------------------


def paths(client: Client) -> list[dict[str, str]]:
    page = client.get(CHARTS).content.decode()
    return [dict(re.findall(r'class="durable-chart-(\w+)" d="([^"]*)"', svg)) for svg in page.split("<svg")[1:]]


def test_of_nothing_there_is_a_chart_that_says_so(boss: Client) -> None:
    text = look(boss, CHARTS)
    assert text.count("Nothing started and nothing ended.") == 4  # in words, and in the picture's description
    assert "The figures" not in text
    for drawn in paths(boss):
        assert {name: path for name, path in drawn.items() if name != "grid"} == dict.fromkeys(
            ("failed", "cancelled", "succeeded", "started"), ""
        )


def test_what_happened_is_drawn_named_and_in_a_table(boss: Client) -> None:
    tally(started=9, succeeded=6, failed=2, cancelled=1)
    text = look(boss, CHARTS)
    assert text.count("9 started, 9 ended, of which 2 failed.") == 4
    for drawn in paths(boss):
        assert all(drawn.values())
        assert drawn["failed"].count("M") == drawn["succeeded"].count("M") == 1
    page = boss.get(CHARTS).content.decode()
    assert 'role="img" aria-labelledby="durable-hour-title durable-hour-summary"' in page
    assert '<title id="durable-hour-title">' in page
    assert '<desc id="durable-hour-summary">' in page
    [row] = re.findall(r"<tr><th.*?</tr>", page.split("durable-day")[0], re.DOTALL)
    assert re.findall(r'number">(.*?)<', row) == ["9", "6", "2", "1"]


def test_both_charts_are_drawn_of_the_same_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    at = datetime(2026, 3, 1, 12, 7, 30, tzinfo=UTC)
    monkeypatch.setattr("django_durable.client.statistics.clock.utcnow", lambda: at)
    for ago, count in {-1: 1, 0: 2, 7: 4, 8: 8, 59: 16, 60: 32, 1_432: 64, 1_433: 128, 1_440: 256}.items():
        tally(minute=at.replace(second=0) - ago * MINUTE, started=count, failed=1)
    hour, day = overview.last_day()
    assert hour == series(HOUR, 60)
    assert day == series(24 * HOUR, 96)


NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def buckets(*counts: dict[str, int]) -> list[Bucket]:
    return [Bucket(NOON + place * MINUTE, **each) for place, each in enumerate(counts)]


@pytest.mark.parametrize(
    ("most", "ticks"),
    [
        (0, ["1", "", "0"]),
        (1, ["1", "", "0"]),
        (2, ["2", "1", "0"]),
        (3, ["4", "2", "0"]),
        (9, ["10", "5", "0"]),
        (10, ["10", "5", "0"]),
        (41, ["60", "30", "0"]),
        (999, ["1k", "500", "0"]),
        (1_500, ["2k", "1k", "0"]),
        (7_654_321, ["8M", "4M", "0"]),
        (10**12 - 1, ["1T", "500G", "0"]),
        (2**63, ["1e+07T", "5e+06T", "0"]),
    ],
)
def test_the_axis_ends_at_a_round_number(most: int, ticks: list[str]) -> None:
    assert chart("x", "X", buckets({"started": most}, {})).ticks == ticks


def test_no_bar_leaves_the_picture_and_none_is_too_small_to_be_seen() -> None:
    drawn = chart("x", "X", buckets({"succeeded": 10**9, "failed": 1}, {"cancelled": 1}, {"started": 10**9})).svg
    drawn = " ".join(re.findall(r' d="(.*?)"', drawn))
    numbers = [float(each) for each in re.findall(r"[VM ](\d+\.?\d*)", drawn)]
    assert min(numbers) >= 0
    assert max(numbers) <= 1_000
    heights = [100 - float(top) for top in re.findall(r"V(\d+\.\d)h", drawn)]
    assert min(heights) >= 1


def test_times_of_the_day_are_those_of_the_site(settings: Any) -> None:
    settings.TIME_ZONE = "Asia/Kolkata"
    assert chart("x", "X", buckets({}, {"started": 1}, {}, {})).times[0] == "17:30"


# --- tabs --------------------------------------------------------------------------------------


def tabs(client: Client, url: str) -> tuple[list[str], list[str]]:
    """Their labels, and which is the page's own."""
    page = client.get(url).content.decode()
    nav = page.split('<nav class="durable-tabs"')[1].split("</nav>")[0]
    found = re.findall(r"<a ([^>]*)>(.*?)</a>", nav)
    return [label for _, label in found], [label for attributes, label in found if "aria-current" in attributes]


def test_all_pages_have_tabs(boss: Client) -> None:
    schedule, worker = make_schedule(), make_worker()
    own = {
        OVERVIEW: "Overview",
        INDEX: "Overview",
        list_url(): "Runs",
        run_url(make_run()): "Runs",
        reverse("admin:django_durable_schedule_changelist"): "Schedules",
        reverse("admin:django_durable_schedule_change", args=[schedule.pk]): "Schedules",
        reverse("admin:django_durable_worker_changelist"): "Workers",
    }
    assert {url: tabs(boss, url)[1] for url in own} == {url: [label] for url, label in own.items()}
    assert {"Overview", "Runs", "Schedules", "Workers"} <= set(tabs(boss, OVERVIEW)[0])
    assert worker.pk


def test_tabs_are_of_what_one_may_see(person: Person) -> None:
    assert set(tabs(person("view_run"), OVERVIEW)[0]) <= {"Overview", "Runs", "Workflows"}
    assert tabs(person("view_worker", name="ben"), reverse("admin:django_durable_worker_changelist"))[0] == ["Workers"]


# --- what it costs -----------------------------------------------------------------------------


@pytest.mark.parametrize("silent", [timedelta(0), timedelta(minutes=10), timedelta(days=2)])
def test_the_number_of_queries_is_bounded(person: Person, silent: timedelta) -> None:
    # More are asked of somebody with permissions than of a superuser.
    client = person(*LOOK, "resume_run", "hold_queue")
    for pid in range(20):
        one = make_worker(pid=pid, queues=[f"q{pid}"], heartbeat_at=timezone.now() - silent)
        make_run("running", leased_by=one.pk, queue=f"q{pid}")
        make_run(queue=f"r{pid}")
        make_run("blocked")
        make_run("failed")
        make_run("running", lease_expires_at=timezone.now() - HOUR)
        make_schedule(name=str(pid), problem="no")
        tally(queue=f"q{pid}", succeeded=1, failed=1)
    for url in (OVERVIEW, INDEX, FRAGMENT, CHARTS):
        client.get(url)
        with CaptureQueriesContext(connection) as queries:
            client.get(url)
        assert len(queries) <= 12, (url, [query["sql"][:100] for query in queries])
