"""Every page of ours, whatever there will be: no violation, no complaint, to be read by night and on a phone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.urls import resolve, reverse
from playwright.sync_api import Page, expect

from tests.browser.conftest import PHONE, Open
from tests.browser.rooms import furnish, questions_of_lists, tour
from tests.browser.seeing import contrasts, faint_of, too_faint, too_wide

EXPECTED = {
    **{"app_list": 1, "overview": 1, "workflows": 1, "run_changelist": 2, "run_change": 9},
    **{f"{model}_{page}": 1 for model in ("schedule", "worker") for page in ("changelist", "change", "history")},
    **{f"run_{each}": 1 for each in ("history", "cancel", "pause", "resume", "rerun", "fork", "event")},
    **{f"schedule_{each}": 1 for each in ("add", "edit", "enable", "disable", "fire", "backfill")},
    **{f"workflows_{each}": 1 for each in ("hold", "release", "start")},
}
"""Pages that are seen at least so often."""
ASKED = {f"{verb}_selected {which}" for verb in ("cancel", "pause", "resume", "rerun", "export")
         for which in ("some", "all")} | {"enable_selected some", "disable_selected some"}  # fmt: skip


def name_of(url: str) -> str:
    return resolve(url.partition("?")[0]).view_name.removeprefix("admin:").removeprefix("django_durable_")


Way = Callable[[Page], Iterator[str]]
DESK = {"color_scheme": "light"}
AT_NIGHT = {"color_scheme": "dark", "viewport": PHONE, "is_mobile": True, "has_touch": True}


@pytest.mark.parametrize("way", [tour, questions_of_lists])
@pytest.mark.parametrize("options", [DESK, AT_NIGHT], ids=["light, on a desk", "dark, on a phone"])
def test_all_can_be_read(open_page: Open, options: dict[str, Any], way: Way, settings: Any) -> None:
    """No text is faint, no page wider than the screen. And each is looked at by the fixture: zero violations of the
    policy, zero complaints on the console."""
    settings.DURABLE = {**settings.DURABLE, "ADMIN_START": True}
    furnish()
    page = open_page(**options)
    faint, wide, seen, texts = {}, {}, [], 0
    for url in way(page):
        seen.append(name_of(url) if way is tour else url)
        found = contrasts(page)
        texts += len(found)
        if unreadable := faint_of(found):
            faint[url] = unreadable
        if sticking_out := too_wide(page):
            wide[url] = sticking_out
    assert faint == {}
    assert wide == {}
    assert texts > 300 if way is tour else texts > 50
    expected = EXPECTED if way is tour else dict.fromkeys(ASKED, 1)
    assert {name: seen.count(name) for name in expected if seen.count(name) < expected[name]} == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_with_nothing_there_yet(open_page: Open, scheme: str) -> None:
    page = open_page(color_scheme=scheme, viewport=PHONE)
    for model in ("run", "schedule", "worker"):
        page.goto(reverse(f"admin:django_durable_{model}_changelist"))
        assert too_wide(page) == []
        assert too_faint(page) == {}
        expect(page.locator("h1").last).to_be_visible()
