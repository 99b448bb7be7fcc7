"""A page is looked at while its run goes on: it shows how far that has come, and is in nobody's way who reads it."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from django_durable.models import Run
from tests.admin.pages import run_url
from tests.app.faults import gate_file, told_of
from tests.processes import Worker, wait_until

LIVE = "[data-durable-refresh]"
SECONDS = 60_000


def test_a_running_run_is_followed_to_its_end(page: Page) -> None:
    gates = [f"live {number}" for number in (1, 2, 3)]
    run_id = told_of.enqueue(gates=gates).id
    Worker()
    wait_until(lambda: Run.objects.get(pk=run_id).status == "running")
    page.goto(run_url(Run(pk=run_id)))
    page.evaluate("() => { window.isSamePage = true; }")
    page.get_by_role("button", name="Cancel").focus()
    for number, gate in enumerate(gates[:2], start=1):
        gate_file(gate).touch()
        expect(page.locator("progress").first).to_have_attribute("value", str(number), timeout=SECONDS)
        expect(page.locator("#content-main")).to_contain_text(f"past gate {number}")
        # A step for each gate that it has passed, and with the first one the beginning of the timeline.
        expect(page.locator("table.durable-timeline").get_by_role("rowheader", name="pass")).to_have_count(number)
        expect(page.get_by_role("button", name="Cancel")).to_be_focused()
    pause = page.get_by_role("button", name="Pause refreshing")
    pause.click()
    expect(page.locator(LIVE).first).to_have_attribute("data-durable-state", "paused")
    gate_file(gates[2]).touch()
    wait_until(lambda: Run.objects.get(pk=run_id).status == "succeeded")
    expect(page.locator(".durable-pill-running").first).to_be_visible()
    expect(pause).to_have_attribute("aria-pressed", "true")
    pause.click()
    expect(page.locator(".durable-pill-succeeded").first).to_be_visible(timeout=SECONDS)
    expect(page.locator(LIVE).first).to_have_attribute("data-durable-state", "done", timeout=SECONDS)
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
    assert page.evaluate("() => window.isSamePage"), "the page was loaded anew"
