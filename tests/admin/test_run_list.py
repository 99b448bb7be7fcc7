from __future__ import annotations

import json
import re
from datetime import timedelta
from html import unescape
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django.utils.html import strip_tags
from django.utils.timezone import localtime

from django_durable.admin import extras, finding
from django_durable.admin.finding import moment_of
from django_durable.admin.look_only import CappedPaginator
from django_durable.core.journal.states import Status
from django_durable.core.payloads.codec import encode
from django_durable.core.payloads.failures import describe
from django_durable.exceptions import ChildFailed, StepFailed, StepTimeout
from django_durable.models import Hold, Payload, Run, Tag
from tests.admin.conftest import LOOK, Person
from tests.admin.pages import list_url, run_url, text_of
from tests.admin.world import make_entry, make_old, make_run, make_worker

EVERYTHING = (
    *LOOK, "cancel_run", "pause_run", "resume_run", "rerun_run", "start_run", "send_event", "hold_queue", "view_payload"
)  # fmt: skip


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


NOWHERE = [
    *("?status=nonsense", "?workflow=no.such", "?queue=%00", "?status=%27", "?created=x", f"?workflow={'x' * 300}"),
    *("?trouble=nonsense", "?reason=nonsense", "?reason=%00", "?until=x", "?parent=x", "?status=attention&trouble=x"),
]


@pytest.mark.parametrize("query", NOWHERE, ids=range(len(NOWHERE)))
def test_another_choice_finds_nothing(boss: Client, query: str) -> None:
    for status in Status:
        make_run(status)
    assert listed(boss, query) == []


HOUR = timedelta(hours=1)


def make_troubles() -> dict[str, Run]:
    """One of each kind, beside as many that look like it and are fine."""
    now = timezone.now()
    # So that it does not change while a test looks at it, which may take longer than who lives may be silent.
    lasting = now + HOUR
    make_worker(queues=["default", "held"], heartbeat_at=lasting)
    make_worker(queues=["silent"], heartbeat_at=now - HOUR)
    Hold.objects.create(kind=Hold.QUEUE, name="held", since=now)
    Hold.objects.create(kind=Hold.WORKFLOW, name="app.held", since=now)
    fine = [make_run(status) for status in sorted(Status)]
    fine += [make_run("scheduled", wake_at=now - HOUR, queue="held"), make_run("running", started_at=now - 2 * HOUR)]
    fine += [make_run("waiting", wake_at=now - HOUR, waiting_on="sleep:a", workflow="app.held")]
    make_entry(fine[-2], "just now")
    Run.objects.filter(status="running").update(lease_expires_at=lasting)
    make_run("queued", suspect=True)
    make_worker(queues=["silent"], is_isolated=True, heartbeat_at=lasting)
    make_entry(fine[0], "seen", kind="child", status="failed")
    return {
        "seen": make_run("failed", workflow="app.seen", parent=fine[0], parent_path="seen"),
        "crashed": make_run("blocked", block_reason="crashed"),
        "unserved": make_run("queued", queue="silent"),
        "limited": make_run("queued", queue="nobody's", limit_key="k"),
        "suspect": make_run("queued", queue="silent", suspect=True),
        "limited-suspect": make_run("queued", queue="nobody's", limit_key="k", suspect=True),
        "lapsed": make_run("running", lease_expires_at=now - HOUR),
        "still": make_run("running", started_at=now - 2 * HOUR, queued_at=now - 2 * HOUR, lease_expires_at=lasting),
        "late": make_run("scheduled", wake_at=now - HOUR),
        "asleep": make_run("waiting", wake_at=now - HOUR, waiting_on="sleep:a", queue="vip", priority=3),
        "yesterday": make_run("failed", finished_at=now - 25 * HOUR, queue="other"),
        "today": make_run("failed", workflow="app.sleepy"),
    }


UNSERVED = "unserved limited suspect limited-suspect"
TROUBLES = [
    ("?status=attention", f"crashed {UNSERVED} lapsed still late asleep yesterday today blocked failed"),
    ("?trouble=today", "today failed"),
    ("?trouble=day", "today failed"),
    ("?trouble=day&workflow=app.sleepy", "today"),
    ("?trouble=day&status=blocked", ""),
    ("?trouble=lapsed", "lapsed"),
    ("?trouble=still", "still"),
    ("?trouble=overdue", "late asleep"),
    ("?trouble=overdue&status=waiting", "asleep"),
    ("?trouble=overdue&queue=vip", "asleep"),
    ("?trouble=overdue&status=failed", ""),
    ("?trouble=unserved", UNSERVED),
    ("?trouble=unserved&queue=silent", "unserved suspect"),
    ("?status=attention&trouble=overdue", "late asleep"),
    ("?status=attention&workflow=app.sleepy", "today"),
    ("?status=attention&created=1h&queue=vip", "asleep"),
    ("?reason=crashed", "crashed"),
    ("?status=blocked&reason=diverged", "blocked"),
    ("?status=failed&reason=crashed", ""),
]


@pytest.mark.parametrize(("query", "names"), TROUBLES, ids=[query for query, _names in TROUBLES])
def test_what_is_wrong_is_found_and_nothing_else(boss: Client, query: str, names: str) -> None:
    runs = make_troubles()
    runs |= {status: Run.objects.get(status=status, **more) for status, more in PLAIN.items()}
    wanted = {runs[name].pk for name in names.split()}
    assert [run.pk for run in listed(boss, query)] == sorted(wanted, reverse=True)
    # Whatever else is asked for, and when an action is for all of them.
    Tag.objects.bulk_create(Tag(run=run, name="blue") for run in Run.objects.all())
    assert {run.pk for run in listed(boss, f"{query}&q=blue")} == wanted
    data = {"action": "export_selected", "index": "0", "select_across": "1", "_selected_action": "all"}
    asked = boss.post(list_url(query), data)
    assert (asked.status_code == 200) == bool(wanted)
    if wanted:
        sent = {**dict(asked.context["hidden"]), "confirmed": "1", "upto": asked.context["form"]["upto"].value()}
        file = b"".join(boss.post(asked.context["target"], sent).streaming_content).decode()
        assert {UUID(json.loads(line)["run"]["id"]) for line in file.splitlines()[:-1]} == wanted


PLAIN: dict[str, dict[str, Any]] = {
    "blocked": {"block_reason": "diverged"},
    "failed": {"queue": "default", "workflow": "app.doubling"},
}


def test_where_no_worker_is_alive_no_queue_needs_attention(boss: Client) -> None:
    """One sentence of the overview says it, and not each of the runs that wait for one."""
    run = make_run()
    assert listed(boss, "?status=attention") == []
    assert listed(boss, "?trouble=unserved") == [run]


def test_what_nobody_asked_for_leaves_room_for_the_rest(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CappedPaginator, "most", 3)
    now = timezone.now()
    make_worker()
    Hold.objects.create(kind=Hold.QUEUE, name="a", since=now)
    for queue in "aaaaabbbbb":
        make_run("scheduled", wake_at=now - HOUR, queue=queue)
    for _ in range(5):
        make_run("queued", queue="b")
        make_run("queued", queue="b", limit_key="b")
    late, ready = make_run("scheduled", wake_at=now - HOUR, queue="c"), make_run("queued", queue="c")
    limited = make_run("queued", queue="c", limit_key="z")
    assert listed(boss, "?trouble=overdue&queue=c") == [late]
    page = boss.get(list_url("?trouble=unserved&queue=c"))
    assert list(page.context["cl"].result_list) == [ready]
    # Runs with limits stand by these.
    assert "there may be others that match" in text_of(page)
    Run.objects.filter(queue="b").delete()
    assert listed(boss, "?trouble=overdue") == [late]
    page = boss.get(list_url("?trouble=unserved"))
    assert list(page.context["cl"].result_list) == [limited, ready]
    assert "there may be others that match" not in text_of(page)


def test_an_action_that_nobody_knows_shows_no_error(boss: Client) -> None:
    make_run()
    for more in ({}, {"_save": "1"}, {"action": "nonsense"}):
        response = boss.post(list_url(), {"index": "0", "_selected_action": "x", **more}, follow=True)
        assert response.status_code == 200


@pytest.mark.parametrize("odd", ["all", "x", "", "9" * 30, "\0", str(UUID(int=0))])
def test_what_names_no_run_is_not_selected(boss: Client, odd: str) -> None:
    run = make_run()
    data = {"action": "cancel_selected", "index": "0", "select_across": "0"}
    response = boss.post(list_url(), {**data, "_selected_action": [odd]}, follow=True)
    assert response.status_code == 200
    asked = boss.post(list_url(), {**data, "_selected_action": [odd, str(run.pk)]})
    assert "Cancel this run?" in text_of(asked)


@pytest.mark.parametrize(("hours", "is_found"), [(23, True), (25, False)])
def test_the_last_day_reaches_back_over_midnight(boss: Client, hours: int, is_found: bool) -> None:
    run = make_old("failed", timedelta(days=3), finished_at=timezone.now() - timedelta(hours=hours))
    assert listed(boss, "?trouble=day") == ([run] if is_found else [])


def cell(client: Client, column: str) -> str:
    """What the only row says there."""
    [found] = re.findall(rf'<t[dh] class="field-{column}[^"]*">(.*?)</t[dh]>', client.get(list_url()).content.decode())
    return " ".join(re.sub("<.*?>", "", found).split())


@pytest.mark.parametrize(
    ("status", "columns", "said"),
    [
        ("queued", {"queued_at": timedelta(minutes=-14)}, "queued 14 min ago"),
        ("scheduled", {"wake_at": timedelta(hours=3, minutes=30)}, "in 3 h"),
        ("scheduled", {"wake_at": timedelta(hours=-2)}, "due 2 h ago"),
        ("queued", {"queued_at": timedelta(0), "started_at": timedelta(hours=-2)}, "2 h ago"),
        ("paused", {"started_at": None}, "-"),
    ],
)
def test_what_has_not_started_says_since_when_or_until_when_it_waits(
    boss: Client, status: str, columns: dict[str, timedelta | None], said: str
) -> None:
    now = timezone.now()
    make_run(status, **{name: None if after is None else now + after for name, after in columns.items()})
    assert cell(boss, "started") == said


def test_each_says_its_queue_and_how_long_it_took(boss: Client) -> None:
    begun = timezone.now() - timedelta(minutes=10)
    make_run("succeeded", queue="mail <b>", started_at=begun, finished_at=begun + timedelta(seconds=95))
    assert (cell(boss, "queue_name"), cell(boss, "took")) == ("mail &lt;b&gt;", "1 min 35 s")


def test_what_goes_on_takes_until_now(boss: Client) -> None:
    make_run("waiting", started_at=timezone.now() - timedelta(hours=3, minutes=7, seconds=5))
    assert cell(boss, "took") == "3 h 7 min"


def test_the_whole_id_stands_in_the_list_to_be_copied_and_leads_to_the_run(boss: Client) -> None:
    """It is seen by its end: the search takes nothing less than all of it."""
    run, _ = make_run(), make_run()
    page = boss.get(list_url()).content.decode()
    [code] = re.findall(rf'<code class="durable-whole-id" title="{run.pk}">.*?</code>', page)
    rest, end = str(run.pk)[:-12], str(run.pk)[-12:]
    assert code.endswith(f'<span class="durable-id-rest" aria-hidden="true">{rest}</span>{end}</code>')
    copied = re.sub("<.*?>", "", code)
    assert listed(boss, f"?q={copied}") == [run]
    assert listed(boss, f"?q={end}") == []


def test_what_a_worker_has_is_found(boss: Client) -> None:
    worker, other = make_worker(), make_worker()
    mine = [make_run("running", leased_by=worker.pk, queue=queue) for queue in ("mail", "default")]
    make_run("running", leased_by=other.pk), make_run("running"), make_run("queued")
    assert listed(boss, f"?worker={worker.pk}") == mine[::-1]
    assert listed(boss, f"?worker={worker.pk}&queue=mail") == mine[:1]
    assert listed(boss, f"?worker={worker.pk}&status=queued") == []
    assert listed(boss, "?worker=nobody") == []


def test_children_of_a_run_are_found(boss: Client) -> None:
    parent = make_run("waiting")
    children = [make_run(status, parent=parent, parent_path=f"m[{n}]") for n, status in enumerate(("failed", "queued"))]
    make_run("failed")
    assert listed(boss, f"?parent={parent.pk}") == children[::-1]
    assert listed(boss, f"?parent={parent.pk}&status=failed") == children[:1]
    assert str(parent.pk) in text_of(boss.get(list_url(f"?parent={parent.pk}")))


@pytest.mark.parametrize("status", sorted(Status))
def test_a_status_is_found_with_every_other_filter(boss: Client, status: str) -> None:
    """Each has its own way through the indexes."""
    run = make_run(status, workflow="app.sleepy", queue="vip")
    limited = make_run(status, workflow="app.sleepy", queue="vip", limit_key="k")
    for other in Status:
        make_run(other)
    assert listed(boss, f"?status={status}&workflow=app.sleepy") == [limited, run]
    assert listed(boss, f"?status={status}&queue=vip&created=1h") == [limited, run]
    assert listed(boss, f"?status={status}&q={run.pk}") == [run]
    assert len(listed(boss, f"?status={status}")) == 3


@pytest.mark.parametrize("waiting_on", ["event:a", "child:a", "join:a", "map:a", "race:a", "sleep:a", "retry:"])
def test_whatever_a_run_waits_on_it_is_found(boss: Client, waiting_on: str) -> None:
    wakes = {"wake_at": timezone.now()} if waiting_on in ("sleep:a", "retry:") else {}
    run, timed = make_run("waiting", waiting_on=waiting_on, **wakes), make_run("waiting", wake_at=timezone.now())
    assert listed(boss, "?status=waiting") == [timed, run]


@pytest.mark.parametrize(("window", "found"), [("10m", 1), ("1h", 2), ("1d", 3), ("7d", 4)])
def test_a_window_of_time_is_a_range_of_ids(boss: Client, window: str, found: int) -> None:
    ages = [timedelta(days=8), timedelta(days=6), timedelta(hours=23), timedelta(minutes=59), timedelta(minutes=9)]
    runs = [make_old("succeeded", age) for age in ages]
    newest_first = runs[::-1]
    assert listed(boss, f"?created={window}") == newest_first[:found]
    since = runs[2]
    assert listed(boss, f"?created={since.pk}") == newest_first[:3]
    page = boss.get(list_url(f"?created={since.pk}"))
    assert f"since {localtime(moment_of(since.pk)):%Y-%m-%d %H:%M:%S}" in text_of(page)


def test_a_name_that_nobody_offers_is_found_and_shown_as_chosen(boss: Client) -> None:
    """A link of the overview leads to a queue that no code and no worker knows any more."""
    run = make_run("queued", queue="forgotten", workflow="app.removed")
    assert listed(boss, "?queue=forgotten&workflow=app.removed") == [run]
    assert "forgotten" in text_of(boss.get(list_url("?queue=forgotten"))).split("By queue")[1]


def test_a_look_that_ends_before_the_last_run_says_so(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "LOOKED_AT", 2)
    make_run("succeeded", workflow="app.rare")
    failed = make_run("failed", workflow="app.rare")
    for _ in range(2):
        make_run("succeeded")
    response = boss.get(list_url("?workflow=app.rare"))
    assert list(response.context["cl"].result_list) == []
    assert "Only 2 runs were looked at" in text_of(response)
    # An index has those that failed, and the time and the search lead further.
    for query in ("?workflow=app.rare&status=failed", f"?workflow=app.rare&q={failed.pk}"):
        response = boss.get(list_url(query))
        assert list(response.context["cl"].result_list) == [failed]
        assert "were looked at" not in text_of(response)


@pytest.mark.parametrize("query", ["workflow__contains=a", "queue__regex=x", "lease_token__startswith=0", "id__gt=0"])
def test_no_other_column_is_searched_from_the_address_line(boss: Client, query: str) -> None:
    assert boss.get(list_url(f"?{query}")).status_code in (302, 400)


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
    assert '<progress max="10" value="3" aria-label="Progress">' in html
    assert "durable-pill-waiting" in html
    assert run_url(run) in html


def test_the_current_step_is_what_is_journaled_last_or_waited_for(boss: Client) -> None:
    waiting, running, begun = make_run("waiting", waiting_on="event:a/packed"), make_run("running"), make_run("running")
    again, over = make_run("waiting", waiting_on="retry:"), make_run("succeeded")
    for run in (running, over):
        make_entry(run, "charge", 1)
        make_entry(run, "a/ship", 2)
    make_entry(begun, "charge", 1)
    make_entry(begun, "boxes", 2, status="open", finished_at=None)
    shown = steps(boss)
    assert shown == {
        waiting.pk: "a/packed",
        running.pk: "after a/ship",
        begun.pk: "boxes",
        again.pk: "the whole run, again",
        over.pk: "",
    }


def test_of_what_failed_or_is_blocked_one_sees_where(boss: Client) -> None:
    failed, blocked, raised = make_run("failed"), make_run("blocked"), make_run("failed")
    for run in (failed, blocked):
        make_entry(run, "reserve", 1)
        make_entry(run, "charge", 2, status="failed")
    make_entry(failed, "reserve%undo", 3, kind="undo")
    make_entry(blocked, "ship", 3)
    make_entry(raised, "reserve", 1)  # and then its own code raised
    assert steps(boss) == {failed.pk: "charge", blocked.pk: "after ship", raised.pk: ""}


RAISED = {"type": "ValueError", "message": "the <gateway> did not answer", "traceback": "..."}


def cell_of_step(client: Client, run: Run) -> str:
    """As it is read, of the line of this run."""
    row = client.get(list_url(f"?q={run.pk}")).content.decode().split('class="field-step')[1].split("</td>")[0]
    return " ".join(unescape(strip_tags(row.partition(">")[2])).split())


def test_of_what_failed_one_sees_why(boss: Client, person: Person) -> None:
    failed, elsewhere = make_run("failed"), make_run("failed")
    make_entry(failed, "charge", 1, status="failed")
    for run in (failed, elsewhere):
        Payload.objects.create(run=run, kind="error", data=encode(RAISED))
    assert cell_of_step(boss, failed) == "charge ValueError: the <gateway> did not answer"
    assert cell_of_step(boss, elsewhere) == "ValueError: the <gateway> did not answer"
    may_look = person(*LOOK, name="ben")
    assert cell_of_step(may_look, elsewhere) == "ValueError: the <gateway> did not answer", "as on its page"


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (StepFailed("a: b", 3, {"type": "shop.gateway.Down", "message": "no: answer"}), "Down: no: answer"),
        (StepFailed("pay", 1, {"type": "ValueError", "message": ""}), "ValueError"),
        (ChildFailed("pack", UUID(int=7), "failed", {"type": "shop.Empty", "message": "box"}), "Empty: box"),
        (StepTimeout("deaf", 5), "StepTimeout: "),
    ],
)
def test_what_a_step_has_raised_is_what_one_has_to_see(boss: Client, error: Exception, shown: str) -> None:
    failed = make_run("failed")
    Payload.objects.create(run=failed, kind="error", data=encode(describe(error)))
    assert cell_of_step(boss, failed).startswith(shown.strip())
    assert "attempt" not in cell_of_step(boss, failed) and "django_durable" not in cell_of_step(boss, failed)


def test_an_attempt_that_is_made_again_is_no_end(boss: Client) -> None:
    again = make_run("waiting", waiting_on="retry:")
    Payload.objects.create(run=again, kind="error", data=encode(RAISED))
    assert cell_of_step(boss, again) == "the whole run, again"


@pytest.mark.parametrize(
    ("message", "shown"), [("m" * 5_000, "ValueError: " + "m" * 48 + "…"), ("m" * 9_000, ""), ("", "ValueError")]
)
def test_a_long_error_is_cut_and_a_very_long_one_is_on_its_page(boss: Client, message: str, shown: str) -> None:
    failed = make_run("failed")
    Payload.objects.create(run=failed, kind="error", data=encode({**RAISED, "message": message}))
    assert cell_of_step(boss, failed) == shown


def test_an_error_is_redacted(boss: Client, settings: Any) -> None:
    failed = make_run("failed")
    Payload.objects.create(run=failed, kind="error", data=encode(RAISED))
    settings.DURABLE = {**settings.DURABLE, "REDACT": f"{__name__}.hide_error"}
    assert cell_of_step(boss, failed) == "ValueError: (hidden)"


def hide_error(_run: Run, kind: str, value: Any) -> Any:
    return {**value, "message": "(hidden)"} if kind == "error" else value


def test_a_very_long_journal_is_not_looked_through(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "LONG", 3)
    long, short = make_run("running"), make_run("running")
    for number in range(4):
        make_entry(long, f"step{number}", number)
        if number < 3:
            make_entry(short, f"step{number}", number)
    assert steps(boss) == {long.pk: "more than 3 entries", short.pk: "after step2"}


def steps(client: Client) -> dict[UUID, str]:
    runs = client.get(list_url()).context["cl"].result_list
    return {run.pk: strip_tags(run._admin_extras.step) for run in runs}


def test_a_running_run_names_its_worker(boss: Client) -> None:
    worker = make_worker(host="box.example", pid=4711)
    known, unknown = make_run("running", leased_by=worker.pk), make_run("running")
    make_run("queued")
    text = text_of(boss.get(list_url()))
    assert "box.example:4711" in text
    assert str(unknown.leased_by)[-12:] in text and str(known.leased_by)[-12:] not in text


def test_progress_is_redacted_and_cut(boss: Client, settings: Any) -> None:
    run, long = make_run("running"), make_run("running")
    said = {"done": 3, "total": 10, "message": "secret"}
    Payload.objects.create(run=run, kind="progress", data=encode(said))
    Payload.objects.create(run=long, kind="progress", data=encode({**said, "total": 7777, "message": "m" * 5_000}))
    assert "secret" in boss.get(list_url()).content.decode()
    settings.DURABLE = {**settings.DURABLE, "REDACT": f"{__name__}.hide_message"}
    page = boss.get(list_url()).content.decode()
    assert "secret" not in page and "3/10" in page and "7777" not in page


def hide_message(_run: Run, kind: str, value: Any) -> Any:
    return {**value, "message": ""} if kind == "progress" else value


@pytest.mark.parametrize("status", sorted(Status))
def test_every_status_has_a_pill(boss: Client, status: str) -> None:
    make_run(status)
    assert f'class="durable-pill durable-pill-{status}"' in boss.get(list_url()).content.decode()


def test_an_empty_list_says_so(boss: Client) -> None:
    assert "There are no runs yet." in text_of(boss.get(list_url()))
    assert "No run matches." in text_of(boss.get(list_url("?status=failed")))
    assert "No run matches." in text_of(boss.get(list_url("?q=nobody")))


@pytest.mark.parametrize("page", ["2", "0", "-1", "9999999999999", "x"])
def test_a_page_that_is_not_there_leads_to_the_first(boss: Client, page: str) -> None:
    run = make_run()
    response = boss.get(list_url(f"?p={page}"), follow=True)
    assert list(response.context["cl"].result_list) == [run]


def test_the_number_of_queries_does_not_grow(person: Person) -> None:
    client = person(*EVERYTHING)
    client.get(list_url())  # fills Django's cache of content types
    worker = make_worker()
    for status in [*sorted(Status)] * 7:
        run = make_run(status, **({"leased_by": worker.pk} if status == "running" else {}))
        make_entry(run, "charge")
        Tag.objects.create(run=run, name="blue")
        Payload.objects.create(run=run, kind="progress", data=encode({"done": 1, "total": 2, "message": ""}))
    make_troubles()
    for query in QUERIES:
        with CaptureQueriesContext(connection) as queries:
            assert client.get(list_url(query)).status_code == 200
        assert len(queries) <= 12, [query["sql"] for query in queries]
        counts = [query["sql"] for query in queries if "COUNT(" in query["sql"].upper()]
        assert len(counts) == 1
        assert "LIMIT 10001" in counts[0]
        assert not any("DISTINCT" in query["sql"] for query in queries)


QUERIES = [
    "",
    "?p=2",
    "?status=attention&workflow=app.doubling",
    "?status=waiting&queue=vip",
    "?status=queued&workflow=app.doubling&queue=default&q=blue",
    "?status=cancelled&created=1h",
    "?status=attention&created=1h&queue=vip&q=blue",
    "?trouble=unserved&workflow=app.doubling",
    "?trouble=overdue&status=waiting",
    "?trouble=still",
]


@pytest.mark.parametrize("action", ["cancel", "pause", "resume", "rerun", "export"])
def test_the_question_about_all_takes_few_queries(person: Person, action: str) -> None:
    # More are asked of somebody with permissions than of a superuser.
    client = person(*EVERYTHING)
    make_troubles()
    data = {**EXPORT_ALL, "action": f"{action}_selected"}
    client.post(list_url(), data)
    for query in ["", "?status=attention&workflow=app.doubling", "?status=attention", "?q=blue", "?trouble=overdue"]:
        with CaptureQueriesContext(connection) as queries:
            client.post(list_url(query), data)
        assert len(queries) <= 12, (query, [query["sql"][:100] for query in queries])


def test_counting_stops_at_a_cap(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CappedPaginator, "most", 60)
    for _ in range(60):
        make_run()
    assert "more than" not in text_of(boss.get(list_url("?p=2")))
    make_run()
    response = boss.get(list_url("?p=2"))
    assert "There are more than 60 runs here" in text_of(response)
    assert len(response.context["cl"].result_list) == 10


OLDER = re.compile(r'<a class="durable-older" href="([^"]*)"')


def walked(client: Client, query: str = "") -> list[list[Run]]:
    """The lists to which "older ones" leads, one after the other."""
    lists = []
    while len(lists) < 50:
        response = client.get(list_url(query))
        lists.append([run for page in range(response.context["cl"].paginator.num_pages) for run in
                      listed(client, f"{query or '?'}&p={page + 1}")])  # fmt: skip
        found = OLDER.search(response.content.decode())
        if not found:
            break
        query = unescape(found[1])
    return lists


@pytest.mark.parametrize("status", ["", "failed", "waiting", "running", "succeeded", "attention"])
def test_older_runs_are_reached(boss: Client, monkeypatch: pytest.MonkeyPatch, status: str) -> None:
    monkeypatch.setattr(CappedPaginator, "most", 4)
    runs = [make_run(status if status not in ("", "attention") else "blocked") for _ in range(10)]
    make_run("cancelled", workflow="app.other")
    query = f"?status={status}&workflow=app.doubling"
    assert [len(one) for one in walked(boss, query)] == [4, 4, 2]
    assert [run for one in walked(boss, query) for run in one] == runs[::-1]
    assert "Created until" in text_of(boss.post(list_url(f"{query}&until={runs[5].pk}"), EXPORT_ALL))


EXPORT_ALL = {"action": "export_selected", "index": "0", "select_across": "1", "_selected_action": "all"}


@pytest.mark.parametrize("status", ["", "succeeded", "failed", "waiting", "queued"])
def test_what_was_not_looked_at_is_reached(boss: Client, monkeypatch: pytest.MonkeyPatch, status: str) -> None:
    monkeypatch.setattr(finding, "LOOKED_AT", 3)
    rare = [make_run(status or "cancelled", workflow="app.rare", queue="rare") for _ in range(2)]
    for number in range(8):
        make_run(status or "cancelled", priority=number)
    lists = walked(boss, f"?status={status}&workflow=app.rare")
    assert {run.pk for one in lists for run in one} == {run.pk for run in rare}
    assert 2 < len(lists) < 8


@pytest.mark.parametrize("status", ["", "succeeded", "failed", "waiting", "queued"])
def test_none_between_two_looks_is_left_out(boss: Client, monkeypatch: pytest.MonkeyPatch, status: str) -> None:
    monkeypatch.setattr(finding, "LOOKED_AT", 3)
    runs = [make_run(status or "cancelled", workflow="app.rare", queue="rare") for _ in range(8)]
    lists = walked(boss, f"?status={status}&workflow=app.rare")
    if status in ("waiting", "queued"):
        # The first one goes by an index of another order, and all are gone through after it.
        assert len(lists.pop(0)) == 3
    assert [len(one) for one in lists] == [3, 3, 2]
    assert [run for one in lists for run in one] == runs[::-1]


def test_an_action_on_older_runs_is_done_to_no_newer_one(boss: Client) -> None:
    runs = [make_run() for _ in range(3)]
    asked = boss.post(list_url(f"?until={runs[1].pk}"), {**EXPORT_ALL, "action": "cancel_selected"})
    assert "This can be done to 2 runs." in text_of(asked)
    fields = {field.name: field.value() for field in asked.context["form"] if field.value() is not None}
    boss.post(asked.context["target"], {**dict(asked.context["hidden"]), **fields, "confirmed": "1"})
    found = dict(Run.objects.values_list("pk", "status"))
    assert [found[run.pk] for run in runs] == ["cancelled", "cancelled", "queued"]


def test_an_answer_for_few_goes_through_these_alone(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    make_worker()
    late = make_run("scheduled", wake_at=timezone.now() - HOUR)
    runs = [make_run() for _ in range(20)]
    asked = boss.post(list_url("?trouble=overdue"), {**EXPORT_ALL, "action": "cancel_selected"})
    monkeypatch.setattr(finding, "WINDOW", 2)
    fields = {field.name: field.value() for field in asked.context["form"] if field.value() is not None}
    with CaptureQueriesContext(connection) as queries:
        boss.post(asked.context["target"], {**dict(asked.context["hidden"]), **fields, "confirmed": "1"})
    assert Run.objects.get(pk=late.pk).status == "cancelled"
    assert sum("WITH every" in query["sql"] for query in queries) == 1 < len(runs) / 2


def test_a_run_that_is_gone_is_told(boss: Client) -> None:
    for object_id in (make_run.__name__, "0198f2a4-0000-7000-8000-000000000000", "<script>"):
        response = boss.get(f"{list_url()}{object_id}/change/", follow=True)
        assert response.redirect_chain == [(list_url(), 302)]
        assert "There is no run" in text_of(response)
