"""What a page says to those who do not see it, and how it is reached by those who have no mouse: names, labels,
headings, table heads; on every page, form and question of ours."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.templatetags.static import static
from django.test import Client
from django.urls import reverse

from django_durable.core.payloads.codec import encode
from django_durable.models import Run
from tests.admin.every import addresses, answer, make_rows_of, question
from tests.admin.pages import list_url
from tests.admin.test_access import ACTIONS
from tests.admin.world import make_run

VOID = frozenset(["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"])
HEADING = re.compile(r"h[1-6]")
NAMES = ("aria-label", "aria-labelledby")
POINTERS = ("aria-labelledby", "aria-describedby", "aria-controls", "for", "form", "list")
OF_DJANGO = ("base-svgs", "field-")
"""Classes of what its templates leave as it is: pictures that others are drawn from, heads of a list's lines."""
PARTS = ("overview_fragment", "overview_charts", "run_live", "schedule_preview")
"""Of a page: what they point to, and what their headings stand under, is there."""


@pytest.fixture(autouse=True)
def _on(settings: Any) -> None:
    settings.DURABLE = {**settings.DURABLE, "ADMIN_START": True}


class Reader(HTMLParser):
    """``faults`` are complete once the page has been fed."""

    def __init__(self, page: str, *, is_part: bool = False) -> None:
        super().__init__()
        self.faults: list[str] = []
        self.open: list[tuple[str, dict[str, str], list[str]]] = []
        self.ids, self.labelled, self.headings = Counter[str](), set[str](), list[int]()
        self.pointers: list[tuple[str, str, str]] = []
        self.fields: list[tuple[str, dict[str, str]]] = []
        self.feed(page)
        self.faults += [f"two are called {name}" for name, count in self.ids.items() if count > 1]
        self.faults += [f"{tag} without a label" for tag, given in self.fields if given.get("id") not in self.labelled]
        if not is_part:
            self.faults += [f"{tag}: {what} {id_}" for tag, what, id_ in self.pointers if id_ not in self.ids]
            self.faults += [f"{self.headings.count(1)} headings of the page"] * (self.headings.count(1) != 1)
        steps = zip(self.headings, self.headings[1:], strict=False)
        self.faults += [f"no h{old + 1} over h{new}" for old, new in steps if new > old + 1]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        is_named = any(given.get(name) for name in NAMES)
        if "id" in given:
            self.ids[given["id"]] += 1
        self.pointers += [(tag, what, id_) for what in POINTERS for id_ in given.get(what, "").split()]
        if tag == "label" and "for" in given:
            self.labelled.add(given["for"])
        is_field = tag in ("select", "textarea") or (
            tag == "input" and given.get("type") not in ("hidden", "submit", "button")
        )
        if is_field and not (is_named or given.get("title") or any(each[0] == "label" for each in self.open)):
            self.fields.append((f"{tag} {given.get('name')}", given))
        if tag in ("meter", "progress") and not is_named:
            self.faults.append(f"{tag} without a name")
        kind = given.get("class", "")
        is_picture = tag == "svg" and given.get("aria-hidden") != "true" and kind not in OF_DJANGO
        if is_picture and not (given.get("role") == "img" and is_named):
            self.faults.append("svg without a name")
        if tag == "img" and "alt" not in given:
            self.faults.append("img without a text")
        if tag == "th" and "scope" not in given and not kind.startswith(OF_DJANGO):
            self.faults.append("th that does not say of what")
        if "durable-scroll" in kind.split() and (given.get("tabindex") != "0" or not is_named):
            self.faults.append(f"a box that no key scrolls, or that has no name: {given}")
        if "data-durable-when" in given and given.get("role") != "status":
            self.faults.append("a word of the page's own that nobody hears")
        if HEADING.fullmatch(tag):
            self.headings.append(int(tag[1]))
        if tag not in VOID:
            self.open.append((tag, given, []))

    def handle_endtag(self, tag: str) -> None:
        while self.open:
            name, given, texts = self.open.pop()
            text = "".join(texts)
            if self.open:
                self.open[-1][2].append(text)
            is_empty = not text.strip() and not any(given.get(each) for each in (*NAMES, "title"))
            if is_empty and (name in ("a", "button") or HEADING.fullmatch(name)):
                self.faults.append(f"{name} without words: {given}")
            if name == tag:
                break

    def handle_data(self, data: str) -> None:
        if self.open:
            self.open[-1][2].append(data)


def pages(client: Client) -> Iterator[tuple[str, Any]]:
    """Every address, as it comes, as it asks and as it refuses an answer; and what the actions ask."""
    rows = make_rows_of("packed")
    for name in addresses():
        url = rows.url(name)
        sent = {**answer(name), "reason": "x" * 2_000, "expression": "x", "name": "\0", "input:number": "x"}
        sent |= question(name)
        yield name, client.get(url)
        yield f"{name} asks", client.post(url, question(name))
        yield f"{name} refuses", client.post(url, sent)
    for (model, action), _ in ACTIONS.items():
        row = {"run": rows.run, "schedule": rows.schedule}[model]
        ways = [{ACTION_CHECKBOX_NAME: str(row.pk)}, {ACTION_CHECKBOX_NAME: "all", "select_across": "1"}]
        for way in ways:
            url = reverse(f"admin:django_durable_{model}_changelist")
            yield action, client.post(url, {"action": action, **way})


def seen(client: Client) -> Iterator[tuple[str, str]]:
    """Those of them that are HTML."""
    for name, response in pages(client):
        if response.status_code == 200 and response["Content-Type"].startswith("text/html"):
            yield name, response.content.decode()


def test_every_page(boss: Client) -> None:
    wrong: dict[str, set[str]] = {}
    looked_at = 0
    for name, page in seen(boss):
        looked_at += 1
        for fault in Reader(page, is_part=name.split()[0] in PARTS).faults:
            wrong.setdefault(fault, set()).add(name)
    assert wrong == {}
    assert looked_at > 50


def test_every_page_has_colours_for_the_dark(boss: Client) -> None:
    link = f'<link rel="stylesheet" href="{static("admin/css/dark_mode.css")}">'
    found = [(name, link in page) for name, page in seen(boss) if name.split()[0] not in PARTS]
    assert sorted({name for name, is_linked in found if not is_linked}) == []
    assert len(found) > 50


def test_what_a_run_says_of_its_progress_is_more_than_a_title(boss: Client) -> None:
    run: Run = make_run("running")
    run.payloads.create(kind="progress", data=encode({"done": 1, "total": 3, "message": "packing <b>"}))
    page = boss.get(list_url()).content.decode()
    assert '<span class="durable-quiet"><bdi>packing &lt;b&gt;</bdi></span>' in page
    assert '<progress max="3" value="1" aria-label="Progress">' in page


SOUND = "<h1>Runs</h1>"


@pytest.mark.parametrize(
    ("html", "fault"),
    [
        ("<h1>Again</h1>", "2 headings of the page"),
        ("<h3>Deep</h3>", "no h2 over h3"),
        ("<h2> </h2>", "h2 without words: {}"),
        ("<a href='/'><svg aria-hidden=true></svg></a>", "a without words: {'href': '/'}"),
        ("<svg></svg>", "svg without a name"),
        ("<meter value=1></meter>", "meter without a name"),
        ("<progress></progress>", "progress without a name"),
        ("<img src=x>", "img without a text"),
        ("<table><tr><th>x</th></tr></table>", "th that does not say of what"),
        ("<p id=a></p><p id=a></p>", "two are called a"),
        ("<p aria-labelledby=gone></p>", "p: aria-labelledby gone"),
        ("<input name=q id=q>", "input q without a label"),
        ("<span data-durable-when=stale hidden>Old</span>", "a word of the page's own that nobody hears"),
    ],
)
def test_the_reader_sees_what_is_wrong(html: str, fault: str) -> None:
    assert Reader(SOUND + html).faults == [fault]
    assert Reader(SOUND + "<label>Q <input name=q></label><label for=r>R</label><select id=r></select>").faults == []


def test_the_reader_sees_a_box_that_no_key_scrolls() -> None:
    assert Reader(SOUND + '<div class="durable-scroll"></div>').faults
    assert not Reader(SOUND + '<div class="durable-scroll" tabindex="0" aria-label="x"></div>').faults
