"""Whatever anybody called anything: every page comes, escapes it, and needs no inline script or style."""

from __future__ import annotations

import pytest
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.test import Client
from django.urls import reverse

from django_durable.core.payloads.codec import encode
from django_durable.models import JournalEntry, Payload, Run, Schedule
from tests.admin.pages import judge, list_url, run_url, text_of, verb_url
from tests.admin.world import make_entry, make_full_run, make_run

CORPUS = {
    "script": "<script>alert(1)</script>",
    "element": "<hostile onmouseover=alert(1)>",
    "image": "<img src=x onerror=alert(1)>",
    "out of an attribute": "\"><hostile onclick='x'>' autofocus onfocus=alert(1) x=\"",
    "out of a script": "</script></title></textarea></pre><hostile>",
    "comment": "<!--<hostile>--><![CDATA[<hostile>]]>",
    "address": "javascript:alert(1)",
    "template": "{{ request.user.password }}{% load static %}{0} %s %(count)d {name.__class__}",
    "entities": "&lt;hostile&gt;&#60;hostile&#62;&amp;",
    "right to left": "\u202egnp.exe\u202c \u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627",
    "line breaks": "one\r\ntwo\nthree\u2028four",
    "escapes": "\\u0000 \\x00 %00 \x1b]0;x\x07 \x7f\x9b",
    "long": "w" * 5_000,
    "long words": "name of a step " * 300,
    "emoji": "\U0001f469\u200d\U0001f4bb\U0001f3f3\ufe0f" * 60,
    "quotes": "' OR 1=1 -- \" ` ; DROP TABLE runs; %_",
    "blank": " ",
}
PAYLOADS_ONLY = {"nul": "a\x00b", "half a character": "\ud83d and \udc69", "all": "".join(map(chr, range(0x120)))}


def urls(run: Run) -> list[str]:
    history = reverse("admin:django_durable_run_history", args=[run.pk])
    lists = [reverse(f"admin:django_durable_{model}_changelist") for model in ("run", "schedule", "worker")]
    return [*lists, run_url(run), history]


def pages_of_rows() -> list[str]:
    from django_durable.models import Worker

    return [
        reverse("admin:django_durable_schedule_change", args=[Schedule.objects.get().pk]),
        reverse("admin:django_durable_worker_change", args=[Worker.objects.get().pk]),
    ]


@pytest.mark.parametrize("what", CORPUS)
def test_every_page_escapes_it(boss: Client, what: str) -> None:
    run = make_full_run(CORPUS[what], "blocked")
    for url in (*urls(run), *pages_of_rows()):
        response = boss.get(url)
        assert response.status_code == 200
        assert judge(response) == [], url


@pytest.mark.parametrize("what", CORPUS)
def test_confirmations_and_messages_escape_it(boss: Client, what: str) -> None:
    text = CORPUS[what]
    run = make_full_run(text, "waiting")
    reason = text[:1_000]
    for verb in ("cancel", "event", "resume"):
        asked = boss.post(verb_url(run, verb), {"confirmed": "1", "reason": "x" * 2_000, "name": text, "payload": text})
        assert judge(asked) == []
    action = {"action": "cancel_selected", ACTION_CHECKBOX_NAME: str(run.pk)}
    assert judge(boss.post(list_url(), action)) == []
    schedule = Schedule.objects.get()
    for verb in ("fire", "backfill", "enable", "disable"):
        asked = boss.post(reverse(f"admin:django_durable_schedule_{verb}", args=[schedule.pk]), {
            "confirmed": "1", "reason": reason, "since": text, "until": text}, follow=True)  # fmt: skip
        assert judge(asked) == []
    boss.post(verb_url(run, "cancel"), {"confirmed": "1", "reason": reason})
    for url in (run_url(run), list_url(f"?q={text[:50]}"), *urls(run)):
        assert judge(boss.get(url, follow=True)) == []


@pytest.mark.parametrize("what", [*CORPUS, *PAYLOADS_ONLY])
def test_payloads_and_errors_may_hold_anything(boss: Client, what: str) -> None:
    text = {**CORPUS, **PAYLOADS_ONLY}[what]
    error = {"type": text, "message": text, "traceback": text}
    run = make_run("blocked")
    make_entry(run, "step", value=encode({text: [text, {1: text}]}), error=encode(error))
    for kind in ("input", "output", "error", "retry", "progress", "block", "notes"):
        value = {"done": 1, "total": 3, **error} if kind in ("error", "progress", "block", "retry") else text
        value = [[text, text]] if kind == "notes" else value
        Payload.objects.create(run=run, kind=kind, data=encode(value))
    for url in (list_url(), run_url(run)):
        response = boss.get(url)
        assert response.status_code == 200
        assert judge(response) == []


def test_what_turns_a_line_around_is_spelled_out(boss: Client) -> None:
    run = make_full_run("\u202egnp.exe", "failed")
    assert "\u202e" not in boss.get(run_url(run)).content.decode()
    assert "\\u202egnp.exe" in text_of(boss.get(run_url(run)))


DAMAGED = ["", "{", "nonsense", '{"$":"gone","v":1}', '{"$":1}', "[" * 3_000, '{"a":NaN}', "1" * 10_000, "null", "[]"]


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
