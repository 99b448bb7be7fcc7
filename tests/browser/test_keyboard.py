"""What an operator does, with a keyboard alone: no click, one always sees where one is, and one gets away again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import Page, expect

from django_durable.core.payloads.codec import encode
from django_durable.models import Audit, Event, Run, Schedule
from tests.admin.pages import list_url, run_url
from tests.admin.world import make_entry, make_run, make_schedule, make_worker
from tests.browser.conftest import Open
from tests.browser.keyboard import Keyboard, has_focus

OVERVIEW, WORKFLOWS = "admin:django_durable_overview", "admin:django_durable_workflows"


@pytest.fixture
def keys(page: Page) -> Keyboard:
    return Keyboard(page)


def test_from_a_filter_to_a_step_and_what_it_brought(keys: Keyboard) -> None:
    page, run = keys.page, _run_with_a_race()
    for _ in range(3):
        make_run("queued")
    page.goto(list_url())
    keys.use(page.locator("#changelist-filter").get_by_role("link", name="failed", exact=True))
    assert not any("action-select" in stop for stop in keys.stops), "it stands above the rows and comes after them"
    expect(page.locator("#result_list tbody tr")).to_have_count(1)
    keys.use(page.locator("#result_list").get_by_role("link", name="app.doubling"))
    expect(page.locator("h1.durable-title")).to_be_visible()
    timeline = page.locator(".durable-timeline")
    keys.use(timeline.get_by_role("link", name="race"))
    expect(page.locator(".durable-part")).to_contain_text("Only what is in race")
    result, whole = page.locator("#value-2"), page.locator("#value-2 pre")
    expect(whole).to_be_hidden()
    keys.use(result.locator("summary"), "Space")
    expect(whole).to_be_visible()
    keys.press("Enter")
    expect(whole).to_be_hidden()
    keys.go_to(page.get_by_role("link", name="The whole run"), "Shift+Tab")
    keys.press("Enter")
    expect(page).to_have_url(f"{page.url.partition('/admin')[0]}{run_url(run)}")


def _run_with_a_race() -> Run:
    now = timezone.now()
    run = make_run("failed", created_at=now - timedelta(seconds=90), started_at=now - timedelta(seconds=90))
    for seq, path in enumerate(("race", "race/a/x", "race/b/y"), 1):
        value = encode({"parcels": [f"JJD {number}" for number in range(40)]})
        make_entry(run, path, seq, kind="race" if seq == 1 else "step", value=value)
    return run


def test_actions_are_chosen_with_space_and_arrows(keys: Keyboard) -> None:
    page, runs = keys.page, [make_run("waiting") for _ in range(3)]
    page.goto(list_url())
    for run in reversed(runs[1:]):
        keys.use(page.locator(f'input.action-select[value="{run.pk}"]'), "Space")
    action = page.locator("select[name=action]").first
    # It stands above the rows.
    keys.go_to(action, "Shift+Tab")
    for _ in range(20):
        if action.input_value() == "cancel_selected":
            break
        keys.press("ArrowDown")
    keys.use(page.locator(".actions [type=submit]").first)
    # The list has what is named here as well, and a key waits for no page.
    expect(page.get_by_role("button", name="Yes, do it")).to_be_visible()
    expect(page.locator("#content-main")).to_contain_text(str(runs[1].pk))
    keys.fill(page.get_by_label("Reason"), "By keyboard.")
    keys.use(page.get_by_role("button", name="Yes, do it"), "Space")
    expect(page.locator(".messagelist")).to_contain_text("2 runs were asked to stop.")
    asked = Run.objects.filter(cancel_requested_at__isnull=False).values_list("pk", flat=True)
    assert set(asked) == {run.pk for run in runs[1:]}


@pytest.mark.parametrize("verb", ["Pause", "Cancel"])
def test_a_run_is_steered(keys: Keyboard, verb: str) -> None:
    page, run = keys.page, make_run("waiting")
    page.goto(run_url(run))
    keys.use(page.get_by_role("button", name=f"{verb}…"))
    expect(page.get_by_role("button", name="Yes, do it")).to_be_visible()
    keys.fill(page.get_by_label("Reason"), "By keyboard.")
    keys.use(page.get_by_role("button", name="Yes, do it"))
    expect(page.locator(".messagelist")).to_be_visible()
    assert Audit.objects.get(run=run).reason == "By keyboard."


def test_an_event_is_sent(keys: Keyboard) -> None:
    page, run = keys.page, make_run("waiting")
    make_entry(run, "packed", kind="event", status="waiting", awaits="packed", finished_at=None)
    page.goto(run_url(run))
    keys.use(page.get_by_role("button", name="Send an event…"), "Space")
    expect(page.get_by_label("Event")).to_have_value("packed")
    expect(page.get_by_label("Event")).to_be_focused()
    keys.fill(page.get_by_label("Payload"), '{"parcel": "JJD 1"}')
    keys.use(page.get_by_role("button", name="Send the event"))
    expect(page.locator(".messagelist")).to_be_visible()
    assert "JJD 1" in Event.objects.get(run=run).payload


def test_what_failed_is_resumed_from_the_overview(keys: Keyboard) -> None:
    page, run = keys.page, make_run("failed")
    make_worker()
    page.goto(reverse(OVERVIEW))
    keys.use(page.locator("#durable-needs").get_by_role("button", name="Resume"))
    expect(page.locator(".durable-why")).to_contain_text("This can be done to 1 run.")
    keys.fill(page.get_by_label("Reason"), "The gateway answers again.")
    keys.use(page.get_by_role("button", name="Yes, do it"))
    expect(page.locator(".messagelist")).to_contain_text("1 run goes on.")
    assert Run.objects.get(pk=run.pk).status == "queued"


def test_a_schedule_is_edited_while_the_preview_follows(keys: Keyboard) -> None:
    page, schedule = keys.page, make_schedule(input='{"number": 4}')
    page.goto(reverse("admin:django_durable_schedule_change", args=[schedule.pk]))
    keys.use(page.get_by_role("button", name="Edit…"))
    expression, preview = page.get_by_label("Expression:"), page.locator("[data-durable-preview]")
    expect(expression).to_be_visible()
    keys.fill(expression, "30 7 * * 1-5")
    expect(preview).to_contain_text("at 07:30 on weekdays")
    assert has_focus(expression), "the preview took it"
    keys.go_to(page.get_by_label("Overlap:"))
    keys.press("ArrowDown")
    keys.use(page.get_by_role("button", name="Save"))
    # The preview says the same, and a key waits for no page.
    expect(page.locator("#content-main.durable-schedule")).to_contain_text("at 07:30 on weekdays")
    saved = Schedule.objects.get()
    assert (saved.expression, saved.overlap != schedule.overlap) == ("30 7 * * 1-5", True)


def test_a_run_is_started(keys: Keyboard, settings: Any) -> None:
    settings.DURABLE = {**settings.DURABLE, "ADMIN_START": True}
    page = keys.page
    page.goto(reverse(WORKFLOWS))
    keys.use(page.get_by_role("link", name="Start a run of app.doubling", exact=True))
    expect(page.get_by_label("number")).to_be_visible()
    keys.fill(page.get_by_label("number"), "21")
    keys.use(page.locator(".submit-row [type=submit]").first)
    expect(page.locator(".durable-pill-queued").first).to_be_visible()
    assert Run.objects.get().workflow == "app.doubling"


def _the_list() -> str:
    for _ in range(12):
        make_run("running")
    return list_url()


def _the_run() -> str:
    return run_url(_run_with_a_race())


def _the_overview() -> str:
    make_run("failed")
    return reverse(OVERVIEW)


def _the_schedule() -> str:
    return reverse("admin:django_durable_schedule_add")


@pytest.mark.parametrize("opened", [_the_list, _the_run, _the_overview, _the_schedule])
def test_nobody_is_trapped(open_page: Open, opened: Callable[[], str]) -> None:
    """Tab goes through the page and out of it, and Shift+Tab the same way back; by night as well one sees where."""
    page = open_page(color_scheme="dark")
    page.goto(opened())
    keys = Keyboard(page)
    forth = keys.leave()
    assert keys.walk("Shift+Tab", len(forth)) == forth[::-1]
    assert len(forth) > 20
