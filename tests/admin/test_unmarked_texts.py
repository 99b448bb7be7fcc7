"""No text of ours is left out of the translations: where each that is marked stands in brackets, what is outside of
them was stored, or is a number."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from html.parser import HTMLParser
from typing import Any
from uuid import uuid4

import pytest
from django.template import Context, Template
from django.test import Client
from django.urls import reverse
from django.utils import timezone, translation

from django_durable import tag_for
from django_durable.admin.text import visible
from django_durable.core.journal.states import BlockReason, Kind
from django_durable.core.payloads.codec import encode
from django_durable.models import Audit, Fire, Payload, Run, Schedule, Tag
from django_durable.workflows.registry import declared
from tests.admin.every import make_rows_of
from tests.admin.pages import list_url, run_url
from tests.admin.test_hostile import walk
from tests.admin.test_languages import ERRORS
from tests.admin.test_phrases import BLOCKED
from tests.admin.world import make_entry, make_line, make_run, make_schedule, make_worker
from tests.app.models import Counter

OPEN, SHUT = "⟦", "⟧"
STORED = "7·7"
"""What rows are called, and all that is said of them: words that are seen are none of theirs."""
STATUSES = ("queued", "scheduled", "running", "waiting", "paused", "blocked", "succeeded", "failed", "cancelled")
SCHEDULE = "admin:django_durable_schedule_change"
NAMES_OF_THE_PROJECT = ("Counter", "counter", "Counters", "App", "Name", "Value")
"""Of its app, and of a model that the project has not marked either."""
BLOCKS = frozenset(
    ["article", "aside", "body", "button", "caption", "dd", "desc", "details", "div", "dl", "dt", "fieldset", "footer",
     "form", "h1", "h2", "h3", "h4", "h5", "h6", "head", "header", "html", "label", "legend", "li", "main", "meter",
     "nav", "ol", "option", "p", "pre", "progress", "section", "select", "summary", "svg", "table", "tbody", "td",
     "text", "textarea", "th", "thead", "title", "tr", "ul"]
)  # fmt: skip
"""Where a text ends. What is in other elements goes on with what is around them."""
SPOKEN = ("alt", "aria-label", "data-label", "placeholder", "title")
NO_TEXT = ("script", "style")
NUMBERS = re.compile(
    r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9a-f]{8}-[0-9a-f-]*…|\b(admin-)?[0-9a-f]{32}\b|\b[0-9a-f]{12}\b"
)
"""Ids: whole, cut, as the keys of forms, and the ends of them."""
WORD = re.compile(r"[^\W\d_]{2,}")
NAMES = frozenset(
    ["ann", "box", "daily", "default", "double", "idle", "new", "orders", "packed", "vip", "UTC", "None",
     "event:packed", f"event:{STORED}", "retry:",
     "manage.py durable_worker", "Search"]
)  # fmt: skip
"""Of users, workers, schedules, queues, steps, events, the zone; a value; what the engine stores of a wait; a
command; and a word of Django's own that it has not marked."""


class Reader(HTMLParser):
    """``found``: the texts outside of brackets that have a word which is in no name; and those that end within."""

    def __init__(self, page: str, names: Iterable[str] = ()) -> None:
        super().__init__()
        self.found: set[str] = set()
        known = "|".join(re.escape(name) for name in sorted({*names, *NAMES}, key=len, reverse=True))
        self._known = re.compile(rf"(?<![\w.])(?:{known})(?![\w.]*\w)")
        self._text, self._has_text = "", True
        self.feed(page)
        self.close()
        self._end()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag in BLOCKS:
            self._end()
        self._has_text = tag not in NO_TEXT
        is_label = tag == "input" and given.get("type") in ("submit", "button", "reset")
        for text in [given.get(name, "") for name in SPOKEN] + [given.get("value", "") if is_label else ""]:
            self._judge(text)

    def handle_endtag(self, tag: str) -> None:
        self._has_text = True
        if tag in BLOCKS:
            self._end()

    def handle_data(self, data: str) -> None:
        if self._has_text:
            self._text += data

    def _end(self) -> None:
        text, self._text = self._text, ""
        self._judge(text)

    def _judge(self, text: str) -> None:
        depth, kept = 0, []
        for character in text:
            depth += (character == OPEN) - (character == SHUT)
            if depth == 0 and character != SHUT:
                kept.append(character)
        outside = self._known.sub("", NUMBERS.sub("", "".join(kept)))
        if depth != 0 or WORD.search(outside):
            self.found.add(" ".join(text.split()))


@pytest.fixture
def _bracketed(monkeypatch: pytest.MonkeyPatch) -> None:
    def bracket(translate: Callable[..., str]) -> Callable[..., str]:
        def translated(*texts: Any) -> str:
            text = translate(*texts)
            # As Django's own do, what is safe is given back as safe.
            return type(text)(f"{OPEN}{text}{SHUT}")

        return translated

    for name in ("gettext", "ngettext", "pgettext", "npgettext"):
        monkeypatch.setattr(translation._trans, name, bracket(getattr(translation._trans, name)))  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def _on(settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    settings.DURABLE = {**settings.DURABLE, "ADMIN_START": True}
    caplog.set_level("ERROR", "django.request")


def names() -> set[str]:
    """Of the workflows that are registered, and what their code calls things."""
    found: set[str] = set()
    for workflow in declared().values():
        options = workflow.options
        found |= {workflow.name, workflow.app_label, options.queue, *workflow.aliases}
        found |= {getattr(fn, "__name__", "") for fn in (options.concurrency_key, options.on_failure)}
        found |= {f"{cron.expression} {cron.timezone}" for cron in options.crons}
    found |= {one.name for one, _ in declared()["app.doubling"].signature.parameters()}
    found |= {visible(one) for one in found}
    return found - {""}


def furnish() -> None:
    """A run in each state that there is, with an entry of each kind; and what of other rows stands in another state."""
    now = timezone.now()
    for status in ("queued", "scheduled", "running", "waiting", "paused", "succeeded", "failed", "cancelled"):
        run = make_run(status, workflow=STORED, max_attempts=3, priority=2, deadline_at=now + timedelta(hours=1))
        for seq, kind in enumerate(Kind):
            make_entry(run, f"{seq}", seq, kind=kind)
        make_entry(run, STORED, 90, status="retrying", attempts=2, wake_at=now, finished_at=None, error='{"type":"7"}')
        run.payloads.create(kind="output", data="{")
        for level in (10, 20, 30, 40, 50):
            make_line(run, STORED, level, level)
    for reason in BlockReason:
        make_run("blocked", workflow=STORED, block_reason=reason)
    make_run("waiting", workflow=STORED, phase="compensating", cancel_requested_at=now)
    make_run("waiting", workflow=STORED, waiting_on="retry:", wake_at=now - timedelta(hours=1))
    make_run("running", workflow=STORED, pause_requested_at=now, lease_expires_at=now - timedelta(hours=1))
    make_worker(host=STORED, stopped_at=now, is_isolated=True)
    make_worker(host=STORED, heartbeat_at=now - timedelta(minutes=5))
    late = {"expression": "0 6 * * 1-5", "next_fire_at": now - timedelta(hours=1)}
    make_schedule(workflow=STORED, name=f"{STORED} 8", **late)
    make_schedule(workflow=STORED, name=f"{STORED} 9", app_label=STORED, jitter=2.5)
    say_all(run)


def say_all(run: Run) -> None:
    """What the engine stores in words of its own: of runs that are blocked, and beside verbs."""
    for say in BLOCKED.values():
        blocked = make_run("blocked", workflow=STORED)
        Payload.objects.create(run=blocked, kind="block", data=encode({"message": say()}))
    for reason in (f"of {run.pk} from '7'", f"{run.pk}", "its branch lost a race", "schedule '7' fired again"):
        run.audit.create(verb="fork", actor=STORED, reason=f"{reason}: {STORED}", status_before="failed")
    when = timezone.now().isoformat()
    for verb, reason in {
        "fire": f"run {run.pk}",
        "backfill": f"2 runs, {when} to {when}",
        "create": f"name {STORED}, expression 0 7 * * *, timezone UTC, catch_up all, input",
        "remove": "expression 0 7 * * *, timezone UTC, overlap cancel_previous, catch_up none, jitter 2.5",
        "enable": "the code says so",
    }.items():
        Audit.objects.create(workflow=STORED, schedule=f"{STORED} 8", verb=verb, reason=f"{reason}: {STORED}")


@pytest.mark.usefixtures("_bracketed")
def test_every_page(boss: Client) -> None:
    rows, left, known, looked_at = make_rows_of(STORED), dict[str, set[str]](), names(), 0
    furnish()
    Fire.objects.update(outcome="fired")
    pages = [(run.status, boss.get(run_url(run))) for run in Run.objects.all()]
    pages += [(one.name, boss.get(reverse(SCHEDULE, args=[one.pk]))) for one in Schedule.objects.all()]
    pages += [(f"list {query}", boss.get(list_url(query))) for query in ("?status=attention", "?q=none", "?all=1")]
    for name, response in [*pages, *walk(boss, rows, STORED)]:
        if response.status_code == 200 and response["Content-Type"].startswith("text/html"):
            looked_at += 1
            for text in Reader(response.content.decode(), known).found:
                left.setdefault(text, set()).add(name)
    assert left == {}
    assert looked_at > 100


@pytest.mark.usefixtures("_bracketed")
@pytest.mark.parametrize("which", ERRORS)
def test_what_the_engine_refuses(boss: Client, monkeypatch: pytest.MonkeyPatch, which: str) -> None:
    error = ERRORS[which]()
    # By these a refusal begins: the class of what is no error of ours, and where in a value or for what name it is.
    about = [str(getattr(error, name, ""))[:80] for name in ("path", "name")]
    known = {*names(), *about, type(error).__name__, "event"} - {""}

    def refuse(*args: Any, **more: Any) -> list[Any]:
        raise error

    monkeypatch.setattr("django_durable.admin.starting.store", refuse)
    sent = {"input:number": "4", "key": str(uuid4()), "reason": ""}
    response = boss.post(f"{reverse('admin:django_durable_workflows_start')}?workflow=app.doubling", sent)
    assert response.context["form"].errors
    assert Reader(response.content.decode(), known).found == set()


@pytest.mark.urls("tests.admin.test_panel")
@pytest.mark.usefixtures("_bracketed")
@pytest.mark.parametrize("is_empty", [True, False])
def test_the_runs_of_a_row_of_the_project(boss: Client, is_empty: bool) -> None:
    counter = Counter.objects.create(name=STORED)
    for status in () if is_empty else STATUSES:
        run = make_run(status, workflow=STORED, waiting_on=f"event:{STORED}" if status == "waiting" else "")
        Tag.objects.create(run=run, name=tag_for(counter))
        Payload.objects.create(run=run, kind="progress", data=encode({"done": 1, "total": 3, "message": STORED}))
        Payload.objects.create(run=run, kind="error", data=encode({"type": STORED, "message": STORED}))
    page = boss.get(reverse("admin:app_counter_change", args=[counter.pk])).content.decode()
    assert ("durable-pill" in page) != is_empty
    assert Reader(page, {*names(), *NAMES_OF_THE_PROJECT}).found == set()


@pytest.mark.usefixtures("_bracketed")
@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("progress", [{"done": 1, "total": 3, "message": STORED}, {"done": 3, "message": ""}, None])
def test_what_a_page_of_the_project_shows_of_a_run(status: str, progress: dict[str, Any] | None) -> None:
    run = make_run(status, workflow=STORED)
    if progress is not None:
        Payload.objects.create(run=run, kind="progress", data=encode(progress))
    page = Template("{% load django_durable %}{% durable_run_progress run %}").render(Context({"run": run}))
    assert OPEN in page
    assert Reader(page).found == set()


@pytest.mark.parametrize(
    ("html", "found"),
    [
        ("<p>⟦Runs⟧</p>", []),
        ("<p>Runs</p>", ["Runs"]),
        ("<p>⟦Runs of <b>⟧ 7·7</b> and others</p>", ["⟦Runs of ⟧ 7·7 and others"]),
        ("<p>⟦Runs of ⟦two⟧ queues⟧ 12 s, 7·7 3/4, UTC</p>", []),
        ("<p>⟦Runs of the…</p><p>⟦others⟧</p>", ["⟦Runs of the…"]),
        ('<a href="/x" title="Runs">⟦x⟧</a>', ["Runs"]),
        ('<input type="submit" value="Go"><input type="text" value="Go">', ["Go"]),
        ("<script>run()</script><style>a {}</style>⟦x⟧", []),
        ("<td>app.one</td><td>app.one.more</td><td>one</td>", ["app.one.more", "one"]),
        ("<code>0193e2c4-aaaa-7bbb-8ccc-abcdefabcdef</code> <i>abcdefabcdef</i>", []),
    ],
)
def test_the_reader(html: str, found: list[str]) -> None:
    assert sorted(Reader(html, ["app.one"]).found) == found
