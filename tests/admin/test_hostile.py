"""Whatever anybody called anything: every page comes, escapes it, and needs no inline script or style."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.test import Client
from django.urls import reverse

from django_durable.core.payloads.codec import encode
from django_durable.models import JournalEntry, Payload, Worker
from tests.admin.every import Rows, addresses, answer, make_rows_of, question
from tests.admin.pages import judge, list_url, run_url, text_of
from tests.admin.test_access import MATRIX
from tests.admin.world import make_entry, make_full_run, make_line, make_run
from tests.hostile.corpus import CORPUS, DAMAGED, PAYLOADS_ONLY

FIELDS = ("name", "kind", "back", "payload", "from_step", "since", "until", "limit", "expression", "timezone",
          "overlap", "catch_up", "jitter", "input", "workflow", "key", "input:number", "queue", "tags")  # fmt: skip


@pytest.fixture(autouse=True)
def _on(settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    settings.DURABLE = {**settings.DURABLE, "ADMIN_START": True}
    caplog.set_level("ERROR", "django.request")


def walk(client: Client, rows: Rows, text: str) -> Iterator[tuple[str, Any]]:
    """Every address: as it comes, as it asks, as it refuses an answer, and when it has done what it was asked."""
    names = [name for name in addresses() if not name.endswith("_old")]
    fields, too_long = dict.fromkeys(FIELDS, text), {"reason": "x" * 2_000}
    for name in names:
        url, asked = rows.url(name), question(name) and {**question(name), "name": text[:200]}
        yield name, client.get(url)
        if MATRIX[name].does:
            yield f"{name} asks", client.post(url, asked)
            yield f"{name} refuses", client.post(url, {**answer(name), **fields, **too_long, **asked})
    query = {"from": "1", "near": "1", "in": rows.run.workflow, "of": text, "expression": text, "timezone": text}
    for name in ("run_change", "run_live", "run_value", "schedule_preview"):
        yield f"{name} with a query", client.get(rows.url(name).partition("?")[0], query)
    for verb in ("cancel", "pause", "resume", "rerun", "export"):
        picked = {"action": f"{verb}_selected", ACTION_CHECKBOX_NAME: [str(rows.run.pk), str(rows.live.pk)]}
        yield f"{verb} of a few", client.post(rows.url("run_changelist"), picked)
    for verb in ("enable", "disable"):
        picked = {"action": f"{verb}_selected", ACTION_CHECKBOX_NAME: [str(rows.schedule.pk), str(rows.idle.pk)]}
        yield f"{verb} of a few", client.post(rows.url("schedule_changelist"), picked)
    for name in (name for name in names if MATRIX[name].does):
        done = {**answer(name), "reason": text[:1_000]}
        yield f"{name} does it", client.post(rows.url(name), done, follow=True)
    for name in (name for name in names if name.endswith("_history")):
        yield f"{name} afterwards", client.get(rows.url(name))


@pytest.mark.parametrize("what", CORPUS)
def test_every_page_escapes_it(boss: Client, what: str) -> None:
    """Also what nobody has thought of who wrote this: the addresses are those that the site has."""
    wrong, looked_at = {}, set()
    for name, response in walk(boss, make_rows_of(CORPUS[what]), CORPUS[what]):
        assert response.status_code in (200, 302, 400, 403, 404, 405), name
        if response.status_code == 200 and response["Content-Type"].startswith("text/html"):
            looked_at.add(name)
            if faults := judge(response):
                wrong[name] = faults
            # Fields keep what was entered, and of the history Django makes the headings.
            if name in MATRIX and not name.endswith("_history"):
                assert "\u202e" not in text_of(response), f"{name} is turned around"
    assert wrong == {}
    gets = {name for name, rule in MATRIX.items() if "get" in rule.methods and rule.well == 200 and all(rule.needs)}
    assert gets - {"run_value"} <= looked_at


@pytest.mark.parametrize("what", CORPUS)
def test_whatever_the_list_is_asked_for_is_escaped(boss: Client, what: str) -> None:
    text = CORPUS[what]
    run = make_full_run(text, "blocked")
    running = make_run("running", workflow=text[:200], leased_by=Worker.objects.get().pk)
    make_entry(running, text[:200])
    for asked in ({"workflow": text[:200], "queue": text[:100]}, {"q": text[:200]}, {"created": text, "status": text}):
        url = list_url(f"?{urlencode(asked)}")
        assert judge(boss.get(url, follow=True)) == []
        for verb in ("cancel", "export"):
            action = {"action": f"{verb}_selected", ACTION_CHECKBOX_NAME: "all", "select_across": "1"}
            assert judge(boss.post(url, action, follow=True)) == []
            again = boss.post(url, {**action, "confirmed": "1", "upto": str(running.pk), "reason": "x" * 2_000})
            assert again.status_code == 302 or judge(again) == []
        boss.post(url, {**action, "confirmed": "1", "upto": str(running.pk), "reason": text[:1_000]})
    assert judge(boss.get(reverse("admin:index"))) == []
    assert judge(boss.get(run_url(run))) == []


@pytest.mark.parametrize("what", [*CORPUS, *PAYLOADS_ONLY])
def test_payloads_and_errors_may_hold_anything(boss: Client, what: str) -> None:
    text = {**CORPUS, **PAYLOADS_ONLY}[what]
    error = {"type": text, "message": text, "traceback": text}
    run = make_run("blocked")
    make_entry(run, "step", value=encode({text: [text, {1: text}]}), error=encode(error))
    make_line(run, text)
    for kind in ("input", "output", "error", "retry", "progress", "block", "notes"):
        value = {"done": 1, "total": 3, **error} if kind in ("error", "progress", "block", "retry") else text
        value = [[text, text]] if kind == "notes" else value
        Payload.objects.create(run=run, kind=kind, data=encode(value))
    for url in (list_url(), run_url(run)):
        response = boss.get(url)
        assert response.status_code == 200
        assert judge(response) == []


@pytest.mark.parametrize("what", [*CORPUS, *PAYLOADS_ONLY])
def test_a_log_may_hold_anything(boss: Client, what: str) -> None:
    text = {**CORPUS, **PAYLOADS_ONLY}[what]
    run = make_run("running")
    for number in range(1, 4):
        make_line(run, text * number, number, scope=text[:500].replace("\0", "").encode(errors="ignore").decode())
    for url in (run_url(run), reverse("admin:django_durable_run_live", args=[run.pk])):
        response = boss.get(url)
        assert response.status_code == 200
        assert 'id="durable-log"' in response.content.decode()
        assert judge(response) == []


def test_what_turns_a_line_around_is_spelled_out(boss: Client) -> None:
    run = make_full_run("\u202egnp.exe", "failed")
    assert "\u202e" not in boss.get(run_url(run)).content.decode()
    assert "\\u202egnp.exe" in text_of(boss.get(run_url(run)))


@pytest.mark.parametrize("text", DAMAGED, ids=range(len(DAMAGED)))
def test_damaged_payloads_break_no_page(boss: Client, text: str) -> None:
    run = make_run("blocked")
    make_entry(run, "step", value=text, error=text)
    for kind in ("input", "output", "error", "retry", "progress", "block", "notes"):
        Payload.objects.create(run=run, kind=kind, data=text)
    run.events.create(name="packed", payload=text)
    for url in (list_url(), run_url(run)):
        response = boss.get(url)
        assert response.status_code == 200
        assert judge(response) == []


def test_what_cannot_be_read_is_shown_as_it_is_stored(boss: Client) -> None:
    run = make_run("succeeded")
    Payload.objects.create(run=run, kind="output", data='{"$":"gone","v":"the parcel"}')
    text = text_of(boss.get(run_url(run)))
    assert '{"$":"gone","v":"the parcel"}' in text
    assert "cannot be read" in text


def test_a_repr_of_the_project_may_fail(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    class Rude:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    monkeypatch.setattr("django_durable.admin.payloads.decode", lambda _text: Rude())
    run = make_run("succeeded")
    Payload.objects.create(run=run, kind="output", data='"stored"')
    text = text_of(boss.get(run_url(run)))
    assert '"stored"' in text
    assert "its repr() raised RuntimeError" in text


def test_nothing_long_is_loaded_or_shown_whole(boss: Client) -> None:
    run = make_run("failed")
    long = encode("x" * 3_000_000)
    make_entry(run, "step", value=long, error=encode({"type": "E", "message": "m" * 9_000, "traceback": "t" * 20_000}))
    for kind in ("input", "output", "error", "progress", "notes"):
        Payload.objects.create(run=run, kind=kind, data=long)
    run.events.create(name="packed", payload=long)
    page = boss.get(run_url(run)).content.decode()
    assert len(page) < 60_000
    assert "3,000,002 characters in all" in page
    assert JournalEntry.objects.get().value == long
