"""What is done to many is chosen in the lists. A row's page has buttons, which ask, and no action beside them."""

from __future__ import annotations

from django.urls import reverse
from playwright.sync_api import Page, expect

from tests.admin.world import make_run, make_schedule

RUNS = {f"{verb}_selected" for verb in ("cancel", "pause", "resume", "rerun", "export")}
SCHEDULES = {"enable_selected", "disable_selected"}
OFFERED = "(found) => found.map((option) => option.value).filter(Boolean)"


def test_they_are_on_the_lists_and_on_no_page_of_a_row(page: Page) -> None:
    for model, row, expected in (("run", make_run("failed"), RUNS), ("schedule", make_schedule(), SCHEDULES)):
        page.goto(reverse(f"admin:django_durable_{model}_changelist"))
        assert set(page.eval_on_selector_all("select[name=action] option", OFFERED)) == expected
        page.goto(reverse(f"admin:django_durable_{model}_change", args=[row.pk]))
        expect(page.locator(f"#content-main.durable-{model} .durable-head button").first).to_be_visible()
        # Whatever Django calls the field there.
        expect(page.locator("select[name$=action]")).to_have_count(0)
