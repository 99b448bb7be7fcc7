"""Light and dark: as the system asks, and as the admin's own switch says against it."""

from __future__ import annotations

import pytest
from django.urls import reverse

from tests.admin.world import make_run
from tests.browser.conftest import Open
from tests.browser.seeing import ground, is_dark, too_faint

STATUSES = ["queued", "scheduled", "running", "waiting", "paused", "blocked", "succeeded", "failed", "cancelled"]


@pytest.mark.parametrize(("system", "chosen"), [("light", "dark"), ("dark", "light")])
def test_the_switch_of_the_admin_holds_for_ours(open_page: Open, system: str, chosen: str) -> None:
    for status in STATUSES:
        make_run(status)
    page = open_page(color_scheme=system)
    page.goto(reverse("admin:django_durable_run_changelist"))
    assert is_dark(page) is (system == "dark")
    pill = ".durable-pill-succeeded"
    before = ground(page, pill)
    switch = page.locator("button.theme-toggle").first
    for _ in range(3):
        if page.locator(f'html[data-theme="{chosen}"]').count():
            break
        switch.click()
    assert page.locator(f'html[data-theme="{chosen}"]').count() == 1
    assert is_dark(page) is (chosen == "dark")
    assert ground(page, pill) != before, "the pills went with it"
    assert too_faint(page) == {}
    page.reload()
    assert is_dark(page) is (chosen == "dark"), "it is remembered"
    assert too_faint(page) == {}
