"""No text of ours is left out of the translations: where each that is marked stands in brackets, what is outside of
them was stored, or is a number."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from html.parser import HTMLParser
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone, translation

from django_durable.admin.text import visible
from django_durable.core.journal.states import BlockReason, Kind
from django_durable.models import Fire, Run
from django_durable.workflows.registry import declared
from tests.admin.every import make_rows_of
from tests.admin.pages import list_url, run_url
from tests.admin.test_hostile import walk
from tests.admin.world import make_entry, make_line, make_run, make_schedule, make_worker

OPEN, SHUT = "⟦", "⟧"
STORED = "7·7"
"""What rows are called, and all that is said of them: words that are seen are none of theirs."""
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
     "event:packed", f"event:{STORED}", "retry:", "expression 0 7 * * *, timezone UTC",
     "manage.py durable_worker", "Search"]
)  # fmt: skip
"""Of users, workers, schedules, queues, steps, events, the zone; a value; what the engine stores of a wait, and of a
change of a schedule; a command; and a word of Django's own that it has not marked."""


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


@pytest.mark.usefixtures("_bracketed")
def test_every_page(boss: Client) -> None:
    rows, left, known, looked_at = make_rows_of(STORED), dict[str, set[str]](), names(), 0
    furnish()
    Fire.objects.update(outcome="fired")
    pages = [(run.status, boss.get(run_url(run))) for run in Run.objects.all()]
    pages += [(f"list {query}", boss.get(list_url(query))) for query in ("?status=attention", "?q=none", "?all=1")]
    for name, response in [*pages, *walk(boss, rows, STORED)]:
        if response.status_code == 200 and response["Content-Type"].startswith("text/html"):
            looked_at += 1
            for text in Reader(response.content.decode(), known).found:
                left.setdefault(text, set()).add(name)
    assert left == {}
    assert looked_at > 100


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
