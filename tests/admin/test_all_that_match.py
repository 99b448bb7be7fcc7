"""A verb for all runs that match: what the question names, and that just that is done, a part at a time."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from asgiref.sync import async_to_sync
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.db.models import Q
from django.test import AsyncClient, Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_durable.admin import finding, sweeping
from django_durable.admin.look_only import CappedPaginator, LookOnlyAdmin
from django_durable.core.payloads.codec import encode
from django_durable.exceptions import RunLocked
from django_durable.models import Audit, Run, Tag
from tests.admin.conftest import LOOK, Person
from tests.admin.pages import judge, list_url, text_of
from tests.admin.world import make_entry, make_old, make_run
from tests.app.workflows import doubling


def ask(client: Client, action: str, query: str = "", **more: str) -> Any:
    data = {"action": f"{action}_selected", "index": "0", "select_across": "1", "_selected_action": "some", **more}
    return client.post(list_url(query), data)


def answer(client: Client, asked: Any, reason: str = "", **more: str) -> Any:
    """Sends the form of the page, to where it says."""
    fields = {field.name: field.value() for field in asked.context["form"] if field.value() is not None}
    hidden = dict(asked.context["hidden"])
    return client.post(asked.context["target"], {**hidden, **fields, "confirmed": "1", "reason": reason, **more})


def statuses(*runs: Run) -> list[str]:
    by_id = dict(Run.objects.values_list("pk", "status"))
    return [by_id[run.pk] for run in runs]


def test_the_question_says_how_many_and_which(boss: Client) -> None:
    runs = [make_run("failed", workflow="app.doubling") for _ in range(3)]
    other, fine = make_run("failed", workflow="app.sleepy"), make_run("succeeded")
    asked = ask(boss, "resume", "?status=failed&workflow=app.doubling")
    text = text_of(asked)
    assert "Resume: all runs that match" in text and "This can be done to 3 runs." in text
    assert "Status failed" in text and "Workflow app.doubling" in text and "Created until" in text
    assert all(str(run.pk) in text for run in runs) and str(other.pk) not in text
    assert not Audit.objects.exists()
    done = answer(boss, asked, "mended")
    assert done.status_code == 302
    assert "3 runs go on." in text_of(boss.get(done.url))
    assert statuses(*runs, other, fine) == ["queued"] * 3 + ["failed", "succeeded"]
    assert {entry.change_message for entry in LogEntry.objects.all()} == {"Resume: mended"}
    assert LogEntry.objects.count() == Audit.objects.filter(reason="mended", actor="ann").count() == 3


def test_of_many_it_says_how_many_and_names_the_newest(boss: Client) -> None:
    runs = [make_run("queued") for _ in range(7)]
    text = text_of(ask(boss, "cancel"))
    assert "This can be done to 7 runs." in text and "… and more" in text
    assert [str(run.pk) in text for run in runs] == [False] * 2 + [True] * 5


def test_it_is_done_to_all_that_it_counts_and_not_to_a_page_of_them(boss: Client) -> None:
    count = LookOnlyAdmin.list_per_page + 10
    runs = [make_run("queued") for _ in range(count)]
    asked = ask(boss, "cancel")
    assert f"This can be done to {count} runs." in text_of(asked)
    assert f"{count} runs were asked to stop." in text_of(boss.get(answer(boss, asked).url))
    assert statuses(*runs) == ["cancelled"] * count


@pytest.mark.parametrize("link", ["worker", "parent"])
def test_what_a_link_leads_to_is_found_without_going_through_the_others(
    boss: Client, monkeypatch: pytest.MonkeyPatch, link: str
) -> None:
    """Which may be ten millions."""
    one, parent = uuid4(), make_run("waiting")
    mine = make_run("running", leased_by=one) if link == "worker" else make_run("running", parent=parent)
    key = one if link == "worker" else parent.pk
    for _ in range(12):
        make_run("running")
    monkeypatch.setattr(finding, "WINDOW", 2)
    asked = ask(boss, "cancel", f"?{link}={key}")
    assert f"{link.title()} {key}" in text_of(asked) and "This can be done to 1 run." in text_of(asked)
    walked = finding.walk(Run.objects.all(), finding.Chosen.of({link: str(key)}), Q(), 10)
    assert [ids for ids, _ in walked] == [[mine.pk]]
    assert "1 run was asked to stop." in text_of(boss.get(answer(boss, asked).url))
    assert [run.pk for run in Run.objects.exclude(cancel_requested_at=None)] == [mine.pk]


def test_what_came_after_the_question_is_left_alone(boss: Client) -> None:
    before = make_run("queued")
    asked = ask(boss, "cancel")
    after = make_run("queued")
    answer(boss, asked)
    assert statuses(before, after) == ["cancelled", "queued"]


def test_the_last_hour_is_that_of_the_question(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    old, recent = make_old("queued", timedelta(hours=2)), make_old("queued", timedelta(minutes=50))
    asked = ask(boss, "cancel", "?created=1h")
    assert "This can be done to 1 run." in text_of(asked)
    later = timezone.now() + timedelta(minutes=30)
    monkeypatch.setattr("django_durable.admin.finding.clock.utcnow", lambda: later)
    answer(boss, asked)
    assert statuses(old, recent) == ["queued", "cancelled"]


@pytest.mark.parametrize("query", ["", "?status=attention", "?status=failed", "?q=blue", "?created=1d"])
def test_it_goes_on_where_the_time_was_over(boss: Client, monkeypatch: pytest.MonkeyPatch, query: str) -> None:
    monkeypatch.setattr(sweeping, "SECONDS", 0.0)
    monkeypatch.setattr(sweeping, "AT_ONCE", 2)
    runs = [make_run(status) for status in ("failed", "blocked", "failed", "paused", "failed")]
    for run in runs:
        Tag.objects.create(run=run, name="blue")
    page, pages = ask(boss, "resume", query), 0
    while page.status_code == 200 and pages < 20:
        page, pages = answer(boss, page, "mended"), pages + 1
        if page.status_code == 200:
            assert "There are more" in text_of(page)
    left = {
        "?status=failed": ["queued", "blocked", "queued", "paused", "queued"],
        "?status=attention": ["queued", "queued", "queued", "paused", "queued"],
    }.get(query, ["queued"] * 5)
    assert statuses(*runs) == left
    assert pages >= 2
    assert f"{left.count('queued')} runs go on." in text_of(boss.get(page.url))
    assert set(Audit.objects.values_list("reason", flat=True)) == {"mended"}


def test_a_page_to_go_on_from_keeps_the_reason_and_tells_what_was_done(
    boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "SECONDS", 0.0)
    monkeypatch.setattr(sweeping, "AT_ONCE", 2)
    for _ in range(3):
        make_run("queued")
    page = answer(boss, ask(boss, "cancel"), "all wrong")
    assert "2 runs were asked to stop." in text_of(page)
    assert page.context["form"]["reason"].value() == "all wrong"


def test_windows_without_a_match_are_passed(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "WINDOW", 2)
    monkeypatch.setattr(finding, "LOOKED_AT", 2)
    rare = make_run("queued", workflow="app.rare")
    for _ in range(5):
        make_run("queued")
    asked = ask(boss, "cancel", "?workflow=app.rare")
    assert "Not all runs were looked at" in text_of(asked)
    assert "Nobody knows yet to how many runs this can be done" in text_of(asked)
    answer(boss, asked)
    assert statuses(rare) == ["cancelled"]
    assert Run.objects.filter(status="queued").count() == 5


def test_nobody_counts_further_than_the_pages_reach(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CappedPaginator, "most", 2)
    runs = [make_run("queued") for _ in range(4)]
    asked = ask(boss, "cancel")
    assert "This can be done to 2+ runs: nobody has counted further." in text_of(asked)
    answer(boss, asked)
    assert set(statuses(*runs)) == {"cancelled"}


def test_a_reason_that_is_too_long_asks_again(boss: Client) -> None:
    run = make_run("queued")
    again = answer(boss, ask(boss, "cancel"), "x" * 1_001)
    make_run("queued")
    assert "This can be done to 1 run." in text_of(again)
    answer(boss, again, "shorter")
    assert [audit.run_id for audit in Audit.objects.all()] == [run.pk]


FORGED = [{"upto": "nonsense"}, {"upto": ""}, {"place": "x"}, {"place": "0:xyz"}, {"done": "-1"}, {"place": "999999"}]


@pytest.mark.parametrize("forged", FORGED, ids=range(len(FORGED)))
def test_forged_fields_are_refused(boss: Client, forged: dict[str, str]) -> None:
    make_run("queued")
    refused = answer(boss, ask(boss, "cancel"), **forged)
    assert "That is not a list of runs." in text_of(boss.get(refused.url))
    assert not Audit.objects.exists()


@pytest.mark.parametrize("query", ["", "?status=succeeded", "?status=nonsense", "?created=x", "?q=nobody", "?q=%00"])
def test_where_nothing_matches_nothing_is_asked(boss: Client, query: str) -> None:
    if query:
        make_run("succeeded")
    asked = ask(boss, "cancel", query)
    assert asked.status_code == 302
    assert "That can be done to none of these runs." in text_of(boss.get(asked.url))


def hold(monkeypatch: pytest.MonkeyPatch, *held: Run) -> None:
    """As another transaction would."""
    perform = sweeping.RunVerb.perform

    def refuse(verb: Any, run_ids: Any, **more: Any) -> int:
        if locked := [run.pk for run in held if run.pk in run_ids]:
            raise RunLocked(locked, 2.0)
        return perform(verb, run_ids, **more)

    monkeypatch.setattr(sweeping.RunVerb, "perform", refuse)


def test_runs_that_others_hold_are_passed_by(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    held, free = make_run("queued"), make_run("queued")
    hold(monkeypatch, held)
    text = text_of(boss.get(answer(boss, ask(boss, "cancel")).url))
    assert "1 run was left as it is: another transaction holds it." in text
    assert "1 run was asked to stop." in text
    assert statuses(held, free) == ["queued", "cancelled"]


def test_those_that_were_passed_by_are_told_however_many_requests_it_takes(
    boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "SECONDS", 0.0)
    monkeypatch.setattr(sweeping, "AT_ONCE", 1)
    runs = [make_run("queued") for _ in range(4)]
    hold(monkeypatch, runs[0], runs[2])
    page, pages = ask(boss, "cancel"), 0
    while page.status_code == 200 and pages < 20:
        page, pages = answer(boss, page), pages + 1
    text = text_of(boss.get(page.url))
    assert "2 runs were left as they are: other transactions hold them." in text
    assert "2 runs were asked to stop." in text
    assert statuses(*runs) == ["queued", "cancelled"] * 2 and pages >= 4


def test_each_run_is_started_again_once(boss: Client) -> None:
    """The new ones match as well."""
    for number in range(3):
        doubling.enqueue(number)
    without_input = make_run("failed")
    answer(boss, ask(boss, "rerun"), "once more")
    assert Run.objects.exclude(pk=without_input.pk).count() == 6


def test_a_question_that_says_which_is_answered_for_these(boss: Client) -> None:
    """Not for those that come to match after it, though they are older than its newest."""
    gone, later, meant = make_run("failed"), make_run("queued"), make_run("failed")
    asked = ask(boss, "rerun", "?status=failed")
    assert "This can be done to 2 runs." in text_of(asked)
    Run.objects.filter(pk=later.pk).update(status="failed", finished_at=timezone.now(), queued_at=None)
    Run.objects.filter(pk=gone.pk).update(status="succeeded")
    for run in (later, meant, gone):
        run.payloads.create(kind="input", data=encode([]))
    assert "1 run was started anew." in text_of(boss.get(answer(boss, asked).url))
    assert set(LogEntry.objects.values_list("object_id", flat=True)) == {str(meant.pk)}


def test_these_stay_the_same_on_the_pages_that_come_between(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "SECONDS", 0.0)
    monkeypatch.setattr(sweeping, "AT_ONCE", 1)
    first, late, *others = (make_run("queued" if number == 1 else "failed") for number in range(4))
    page = answer(boss, ask(boss, "resume", "?status=failed"), "x" * 1_001)
    Run.objects.filter(pk=late.pk).update(status="failed", finished_at=timezone.now(), queued_at=None)
    again = answer(boss, page, "x" * 1_001)
    assert "This can be done to 3 runs." in text_of(again)
    page, pages = again, 0
    while page.status_code == 200 and pages < 20:
        page, pages = answer(boss, page, "mended"), pages + 1
    assert statuses(late, first, *others) == ["failed", "queued", "queued", "queued"] and pages > 2


@pytest.mark.parametrize("named", ["", "x", "," * 400_000])
def test_a_forged_list_of_them_is_refused(boss: Client, named: str) -> None:
    run = make_run("failed")
    refused = answer(boss, ask(boss, "resume"), named=named)
    assert "That is not a list of runs." in text_of(boss.get(refused.url))
    assert statuses(run) == ["failed"]


def test_a_file_has_no_such_list(boss: Client) -> None:
    make_run("failed")
    asked = ask(boss, "export")
    assert "named" not in dict(asked.context["hidden"])
    again = answer(boss, asked, "x" * 1_001, named="x")
    assert "This can be done to 1 run." in text_of(again)


@pytest.mark.parametrize("is_cut", [True, False])
def test_an_answer_that_comes_twice_starts_each_run_once(
    boss: Client, monkeypatch: pytest.MonkeyPatch, is_cut: bool
) -> None:
    monkeypatch.setattr(CappedPaginator, "most", 2 if is_cut else 10_000)
    for number in range(3):
        doubling.enqueue(number)
    asked = ask(boss, "rerun")
    for _ in range(2):
        assert "3 runs were started anew." in text_of(boss.get(answer(boss, asked).url))
    assert Run.objects.count() == 6 and LogEntry.objects.count() == 3
    monkeypatch.setattr(CappedPaginator, "most", 10_000)
    answer(boss, ask(boss, "rerun"))
    assert Run.objects.count() == 12


def test_what_it_takes_does_not_grow_with_what_matches(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "SECONDS", 0.0)
    counts = []
    for number in (1, 40):
        for _ in range(number):
            make_run("queued")
        asked = ask(boss, "cancel")
        with CaptureQueriesContext(connection) as queries:
            answer(boss, asked)
        counts.append(len(queries))
    assert counts[0] == counts[1]


# --- exports ---------------------------------------------------------------------------------


def lines_of(response: Any) -> list[dict[str, Any]]:
    assert response.status_code == 200
    text = b"".join(response.streaming_content).decode()
    *lines, end = [json.loads(line) for line in text.splitlines()]
    assert end == {"format": "django_durable.end", "version": 1, "runs": len(lines)}
    return lines


def make_secretive() -> Run:
    run = make_run("failed")
    make_entry(run, "step", value=encode("secret value"), error=encode({"type": "E", "message": "known"}))
    for kind in ("input", "output", "error"):
        run.payloads.create(kind=kind, data=encode(f"secret {kind}" if kind != "error" else "known"))
    run.events.create(name="packed", payload=encode("secret event"))
    Tag.objects.create(run=run, name="blue")
    return run


def test_a_selection_is_exported_as_lines(boss: Client) -> None:
    run, other = make_secretive(), make_run("queued")
    asked = boss.post(list_url(), {"action": "export_selected", "index": "0", "_selected_action": [str(run.pk)]})
    assert "Export this run?" in text_of(asked)
    question = asked.context["question"]
    data = {**question.hidden, "confirmed": "1", "ids": question.form["ids"].value(), "reason": "a bug report"}
    response = boss.post(list_url(), data)
    [line] = lines_of(response)
    assert line["run"]["id"] == str(run.pk) != str(other.pk)
    assert line["tags"] == ["blue"]
    assert line["payloads"]["input"] == encode("secret input")
    assert "attachment" in response["Content-Disposition"]
    assert LogEntry.objects.get().object_id == str(run.pk)
    assert LogEntry.objects.get().change_message == "Export: a bug report"


def test_all_that_match_are_exported_and_it_is_written_down(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_durable.admin.exports.AT_ONCE", 2)
    runs = [make_run("failed") for _ in range(5)]
    make_run("queued")
    asked = ask(boss, "export", "?status=failed")
    after = make_run("failed")
    found = {line["run"]["id"] for line in lines_of(answer(boss, asked, "a bug report"))}
    assert found == {str(run.pk) for run in runs}
    assert str(after.pk) not in found
    entry = LogEntry.objects.get()
    assert entry.object_repr.startswith("Status: failed") and entry.change_message == "Export: a bug report"


def test_values_are_exported_for_those_who_may_view_payloads(person: Person) -> None:
    make_secretive()
    for name, permissions in {"ann": LOOK, "bob": (*LOOK, "view_payload")}.items():
        client = person(*permissions, name=name)
        [line] = lines_of(answer(client, ask(client, "export")))
        assert ("secret" in json.dumps(line)) == (name == "bob")
        assert line["payloads"]["error"] == encode("known")
        assert "known" in line["journal"][0]["error"]


def test_errors_are_exported_whole_only_for_those_who_may_view_payloads(person: Person) -> None:
    run = make_run("failed")
    error = {"type": "E", "message": "m" * 9_000, "traceback": "t" * 9_000, "cause": "c" * 9_000}
    make_entry(run, "step", error=encode(error))
    run.payloads.create(kind="error", data=encode(error))
    run.payloads.create(kind="notes", data=encode([["note", "n" * 9_000]]))
    for name, permissions in {"ann": LOOK, "bob": (*LOOK, "view_payload")}.items():
        client = person(*permissions, name=name)
        [line] = lines_of(answer(client, ask(client, "export")))
        for text in (line["payloads"]["error"], line["journal"][0]["error"]):
            if name == "bob":
                assert text == encode(error)
            else:
                assert len(text) < 5_000 and "mmm" in text and "ttt" in text and "ccc" not in text
        assert (line["payloads"]["notes"] is None) == (name == "ann")


def hidden(_run: Run, kind: str, value: Any) -> Any:
    return f"no {kind}" if "secret" in str(value) else value


def test_exports_are_redacted_too(boss: Client, settings: Any) -> None:
    settings.DURABLE = {**settings.DURABLE, "REDACT": f"{__name__}.hidden"}
    make_secretive()
    [line] = lines_of(answer(boss, ask(boss, "export")))
    assert "secret" not in json.dumps(line)
    assert line["payloads"]["input"] == encode("no input")
    assert line["events"][0]["payload"] == encode("no event")


def test_what_cannot_be_redacted_is_not_exported(boss: Client, settings: Any) -> None:
    settings.DURABLE = {**settings.DURABLE, "REDACT": f"{__name__}.hidden"}
    run = make_run("failed")
    run.payloads.create(kind="input", data='{"$":"gone","v":"secret"}')
    run.payloads.create(kind="notes", data='[["card", "secret"]]')
    [line] = lines_of(answer(boss, ask(boss, "export")))
    assert line["payloads"]["input"] is None
    assert line["payloads"]["notes"] == encode([["card", "no notes"]])


def test_an_export_is_streamed_under_asgi(person: Person) -> None:
    run = make_run("failed")
    cookies = person(boss=True).cookies
    data = {"action": "export_selected", "_selected_action": "all", "select_across": "1", "confirmed": "1"}

    async def ask_for_it() -> list[bytes]:
        client = AsyncClient()
        client.cookies = cookies
        response = await client.post(list_url(), {**data, "upto": str(run.pk)})
        assert response.is_async
        return [line async for line in response.streaming_content]

    line, end = async_to_sync(ask_for_it)()
    assert json.loads(line)["run"]["id"] == str(run.pk) and json.loads(end)["runs"] == 1


# --- who and what ----------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["cancel", "pause", "resume", "rerun"])
def test_it_needs_the_permission_of_its_verb(person: Person, verb: str) -> None:
    run = make_run("waiting")
    client = person(*LOOK, "view_payload")
    data = {"action": f"{verb}_selected", "_selected_action": "all", "select_across": "1", "confirmed": "1"}
    client.post(list_url(), {**data, "upto": str(run.pk)})
    assert statuses(run) == ["waiting"]
    assert not Audit.objects.exists()


def test_a_hostile_filter_is_escaped(boss: Client) -> None:
    name = "\"><hostile onclick='x'>"
    make_run("queued", workflow=name, queue=name)
    query = "?workflow=%22%3E%3Chostile%20onclick%3D%27x%27%3E&queue=%22%3E%3Chostile%20onclick%3D%27x%27%3E"
    asked = ask(boss, "cancel", query)
    assert "This can be done to 1 run." in text_of(asked)
    assert judge(asked) == [] and judge(boss.get(list_url(query))) == []
