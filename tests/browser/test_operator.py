"""What somebody does who is woken at night: find the run, see where it stands, steer it, and leave word of it."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import Locator, Page, expect

from django_durable.admin.waterfall import BAR_LEAST
from django_durable.models import Audit, Run
from tests.admin.pages import run_url
from tests.admin.world import make_entry, make_run
from tests.app.workflows import listening, sleepy
from tests.browser.conftest import DESK, PHONE, Open
from tests.processes import Worker, wait_until


def status_of(run_id: object) -> str:
    return str(Run.objects.values_list("status", flat=True).get(pk=run_id))


def test_from_the_list_to_the_audit(page: Page) -> None:
    """A real run, worked by a real worker, is found by its tag, looked at, and cancelled with a reason."""
    run_id = sleepy.using(tags=["order-42"]).enqueue(seconds=3_600).id
    Worker()
    wait_until(lambda: status_of(run_id) == "waiting")
    page.goto(reverse("admin:django_durable_run_changelist"))
    page.locator("#searchbar").fill("order-42")
    page.locator("#searchbar").press("Enter")
    page.locator("#result_list").get_by_role("link", name="sleepy").click()
    expect(page).to_have_url(re.compile(re.escape(run_url(Run(pk=run_id)))))
    expect(page.locator(".durable-pill-waiting").first).to_be_visible()
    the_timeline_leads_to_a_step_and_back(page)
    page.get_by_role("button", name="Cancel").click()
    assert status_of(run_id) == "waiting", "it is asked first"
    page.get_by_label("Reason").fill("The customer has called.")
    page.get_by_role("button", name="Yes, do it").click()
    wait_until(lambda: status_of(run_id) == "cancelled")
    page.goto(run_url(Run(pk=run_id)))
    expect(page.locator(".durable-pill-cancelled").first).to_be_visible()
    audit = page.locator("section", has=page.get_by_role("heading", name="Audit"))
    expect(audit).to_contain_text("The customer has called.")
    expect(audit).to_contain_text("boss")
    assert Audit.objects.get(run_id=run_id, verb="cancel").actor == "boss"
    assert "The customer has called." in LogEntry.objects.get(object_id=str(run_id)).change_message


def the_timeline_leads_to_a_step_and_back(page: Page) -> None:
    everything, rows = ["the run", "before", "nap"], page.locator("table.durable-timeline tbody tr")
    assert drawn(rows) == everything
    rows.get_by_role("link", name="nap").click()
    expect(page.locator(".durable-part")).to_contain_text("Only what is in nap.")
    assert drawn(rows) == ["nap"]
    page.get_by_role("link", name="The whole run").click()
    expect(rows).to_have_count(len(everything))
    assert drawn(rows) == everything


BARS = """
(rows) => rows.map((row) => {
    const bars = [...row.querySelectorAll("rect[class^=durable-bar-]")].map((bar) => bar.getBoundingClientRect());
    return [row.querySelector("th bdi").textContent, bars.some((bar) => bar.width >= 1 && bar.height >= 1)];
})
"""


def drawn(rows: Locator) -> list[str]:
    """What the rows are called that have a bar which one sees: a pixel of it at least."""
    # A click waits for the page and not for its stylesheets, without which bars have no height.
    rows.page.wait_for_load_state()
    return [label for label, is_seen in rows.evaluate_all(BARS) if is_seen]


def test_a_short_step_beside_a_long_one_is_looked_at_closely(page: Page) -> None:
    """And from there one comes to what was done around it."""
    begun = timezone.now() - timedelta(hours=2)
    run = make_run("succeeded", created_at=begun, started_at=begun, finished_at=begun + timedelta(hours=2))
    make_entry(run, "pay", 1, started_at=begun, finished_at=begun + timedelta(seconds=10))
    make_entry(run, "pack", 2, started_at=begun + timedelta(seconds=10), finished_at=begun + timedelta(hours=2))
    rows = page.locator("table.durable-timeline tbody tr")
    page.goto(run_url(run))
    assert rows.filter(has_text="pay").evaluate(SHARE) < 2 * BAR_LEAST / 100
    rows.get_by_role("link", name="pay").click()
    expect(rows).to_have_count(1)
    page.wait_for_load_state()
    assert rows.evaluate(SHARE) > 0.99
    page.get_by_role("link", name="Its neighbours").click()
    expect(rows).to_have_count(2)


SHARE = """
(row) => {
    const [track, bar] = ["svg", "rect[class^=durable-bar-]"].map((one) => row.querySelector(one));
    return bar.getBoundingClientRect().width / track.getBoundingClientRect().width;
}
"""
"""Of the axis, that a row's first bar takes."""


@pytest.mark.parametrize("viewport", [DESK, PHONE])
def test_the_axis_stands_over_the_bars(open_page: Open, viewport: dict[str, int]) -> None:
    run = make_run("succeeded")
    make_entry(run, "pay")
    page = open_page(viewport=viewport)
    page.goto(run_url(run))
    boxes = [page.locator(f"svg.durable-{part}").first.bounding_box() for part in ("axis", "track")]
    assert len({(box["x"], box["width"]) for box in boxes if box}) == 1


def test_an_event_lets_a_run_go_on(page: Page) -> None:
    run_id = listening.enqueue().id
    Worker()
    wait_until(lambda: status_of(run_id) == "waiting")
    page.goto(run_url(Run(pk=run_id)))
    page.get_by_role("button", name="Send an event").click()
    expect(page.get_by_label("Event")).to_have_value("packed")
    page.get_by_label("Payload").fill('{"parcel": "JJD 1"}')
    page.locator("[type=submit].default").click()
    wait_until(lambda: status_of(run_id) == "succeeded")
    page.goto(run_url(Run(pk=run_id)))
    expect(page.locator(".durable-pill-succeeded").first).to_be_visible()
    expect(page.locator("#content-main")).to_contain_text("JJD 1")


def test_what_is_chosen_in_the_list_is_named_before_it_is_done(page: Page) -> None:
    runs = [make_run("waiting") for _ in range(3)]
    page.goto(reverse("admin:django_durable_run_changelist"))
    for run in runs[:2]:
        page.locator(f'input.action-select[value="{run.pk}"]').check()
    page.locator("select[name=action]").first.select_option("cancel_selected")
    page.get_by_role("button", name="Run", exact=True).or_(page.get_by_role("button", name="Go")).first.click()
    named = page.locator("#content-main")
    for run in runs[:2]:
        expect(named).to_contain_text(str(run.pk))
    expect(named).not_to_contain_text(str(runs[2].pk))
    page.get_by_role("button", name="Yes, do it").click()
    expect(page.locator(".messagelist")).to_contain_text("2 runs were asked to stop.")
    asked = Run.objects.filter(cancel_requested_at__isnull=False).values_list("pk", flat=True)
    assert set(asked) == {run.pk for run in runs[:2]}
