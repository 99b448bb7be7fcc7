"""Every page of ours, whatever there will be: no violation, no complaint, to be read by night and on a phone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.urls import resolve, reverse
from playwright.sync_api import Page, expect

from django_durable.admin import sweeping
from django_durable.models import Run, Schedule
from tests.browser.conftest import DESK, PHONE, Open
from tests.browser.rooms import furnish, questions_of_lists, refusals, tour
from tests.browser.seeing import contrasts, faint_of, too_faint, too_wide
from tests.browser.shapes import lost_of, rings, shapes
from tests.browser.visited import EXPECTED

ASKED = {f"{verb}_selected {which}" for verb in ("cancel", "pause", "resume", "rerun", "export")
         for which in ("some", "all")} | {"enable_selected some", "disable_selected some"}  # fmt: skip
REFUSED = {"an event, refused for a field", "a window, refused as a whole", "a cancel, cut off"}
DRAWN = [
    *(f"durable-bar-{bar}" for bar in ("succeeded", "failed", "undo", "wait", "planned", "scope")),
    *(
        "circle",
        "durable-pill",
        "the tab",
        "progress",
        "meter",
        "textarea",
        "durable-pause",
        "started over",
        "succeeded on",
    ),
    *(f"durable-chart-{part}" for part in ("started", "succeeded", "failed", "cancelled")),
]
"""Parts of what is told of shapes that are seen."""


def name_of(url: str) -> str:
    return resolve(url.partition("?")[0]).view_name.removeprefix("admin:").removeprefix("django_durable_")


Way = Callable[[Page], Iterator[str]]
LIGHT, DARK = "light, on a desk", "dark, on a phone"
WAYS = {
    tour: (EXPECTED, 600),
    questions_of_lists: (dict.fromkeys(ASKED, 1), 100),
    refusals: (dict.fromkeys(REFUSED, 1), 40),
}
"""What is seen on each, and of how many texts at least."""


def shown(page: Page, name: str) -> None:
    page.set_viewport_size(DESK if name == LIGHT else PHONE)
    page.emulate_media(color_scheme="light" if name == LIGHT else "dark")


@pytest.mark.parametrize("way", WAYS)
def test_all_can_be_read(page: Page, way: Way, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No text is faint, no bar, border or ring around what Tab comes to; no page is wider than the screen. And each is
    looked at by the fixture: zero violations of the policy, zero complaints on the console.

    A page comes once, in the one look, and is shown in the other; the next one comes in that.
    """
    settings.DURABLE = {**settings.DURABLE, "ADMIN_START": True}
    monkeypatch.setattr(sweeping, "SECONDS", 0.0)
    furnish()
    wrong, seen, texts, drawn = [], [], 0, set[str]()
    ringed: dict[str, set[str]] = {LIGHT: set(), DARK: set()}
    shown(page, now := LIGHT)
    for url in way(page):
        seen.append(name_of(url) if way is tour else url)
        for look in (now, now := DARK if now == LIGHT else LIGHT):
            shown(page, look)
            found, beside, around = contrasts(page), shapes(page), rings(page, ringed[look])
            ringed[look].update(around)
            texts += len(found)
            drawn.update({f"{name} ({look})" for name in beside})
            faults = {"faint": faint_of(found), "lost": lost_of(beside | around), "wide": too_wide(page)}
            wrong += [(url, look, what, which) for what, which in faults.items() if which]
    assert wrong == []
    expected, texts_least = WAYS[way]
    assert texts > texts_least
    if way is tour:
        wanted = [(part, look) for part in DRAWN for look in (LIGHT, DARK)]
        assert [one for one in wanted if not any(one[0] in name and one[1] in name for name in drawn)] == []
    assert {name: seen.count(name) for name in expected if seen.count(name) < expected[name]} == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_with_nothing_there_yet(open_page: Open, scheme: str) -> None:
    page = open_page(color_scheme=scheme, viewport=PHONE)
    lists = [f"admin:django_durable_{model}_changelist" for model in ("run", "schedule", "worker")]
    for name in (*lists, "admin:django_durable_overview", "admin:django_durable_workflows"):
        page.goto(reverse(name))
        assert too_wide(page) == []
        assert too_faint(page) == {}
        expect(page.locator("h1").last).to_be_visible()


WIDTHS = (320, PHONE["width"], 768, 1024)
"""The smallest phone there is, or a desk at 400 %; ours; a tablet, and half of a wide screen, of which Django's own
navigation takes a part."""


@pytest.mark.parametrize("language", ["en", "de"])
def test_nothing_is_wider_than_the_screen(page: Page, settings: Any, language: str) -> None:
    """At widths that the tour does not come by, and in the longer words of German."""
    # Not by what the browser accepts: the tests' site listens to none, and is started already.
    settings.LANGUAGE_CODE = language
    settings.DURABLE = {**settings.DURABLE, "ADMIN_START": True}
    furnish()
    run, schedule = Run.objects.filter(status="waiting").latest("pk"), Schedule.objects.earliest("pk")
    pages = {name: reverse(f"admin:django_durable_{name}") for name in ("overview", "workflows", "run_changelist")}
    pages |= {
        name: reverse(f"admin:django_durable_{name}", args=[row.pk])
        for name, row in (("run_change", run), ("schedule_change", schedule))
    }
    wide = {}
    for name, url in pages.items():
        page.goto(url)
        expect(page.locator("html")).to_have_attribute("lang", language)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 800})
            if sticking_out := too_wide(page):
                wide[name, width] = sticking_out
    assert wide == {}
