"""While somebody types an expression, the page says when it fires."""

from __future__ import annotations

from django.urls import reverse
from playwright.sync_api import Page, Request, expect

from django_durable.models import Schedule
from tests.browser.conftest import PHONE, Open
from tests.browser.seeing import too_faint, too_wide

ADD, PREVIEW = "admin:django_durable_schedule_add", "[data-durable-preview]"


def test_an_expression_is_told_while_it_is_typed(page: Page) -> None:
    asked: list[Request] = []
    page.on("request", lambda request: asked.append(request) if "/preview/" in request.url else None)
    page.goto(reverse(ADD))
    preview = page.locator(PREVIEW)
    expect(preview).to_contain_text("Write an expression")
    expression, zone = page.get_by_label("Expression:"), page.get_by_label("Time zone:")
    expression.press_sequentially("30 7 * * 1-5", delay=5)
    expect(preview).to_contain_text("at 07:30 on weekdays")
    expect(preview.locator("tbody tr")).to_have_count(5)
    assert len(asked) < len("30 7 * * 1-5"), "not for each letter"
    zone.fill("Asia/Kolkata")
    expect(preview.locator("tbody")).to_contain_text("02:00:00")
    expression.fill("61 * * * *")
    expect(preview).to_contain_text("It cannot fire: cannot be understood")
    expect(expression).to_be_focused()
    expect(page.get_by_role("status")).to_contain_text("It cannot fire")
    expression.fill("<img src=x onerror=alert(1)>")
    expect(preview).to_contain_text("has to have five fields")
    expect(preview.locator("img")).to_have_count(0)


def test_a_schedule_is_made_changed_and_filled(page: Page) -> None:
    page.goto(reverse("admin:django_durable_schedule_changelist"))
    page.get_by_role("link", name="Add schedule").click()
    page.get_by_label("Workflow:").select_option("app.doubling")
    page.get_by_label("Name:").fill("at dawn")
    page.get_by_label("Expression:").fill("0 6 * * *")
    page.get_by_label("Time zone:").fill("UTC")
    page.get_by_label("Input:").fill('{"number": 4}')
    # The key that sends a form presses its first button.
    page.get_by_label("Name:").press("Enter")
    expect(page.locator("#content-main")).to_contain_text("at 06:00 every day")
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Expression:").fill("0 7 * * *")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#content-main")).to_contain_text("at 07:00 every day")
    assert Schedule.objects.get().expression == "0 7 * * *"
    page.get_by_role("button", name="Backfill").click()
    page.get_by_label("Since:").fill("2024-01-01T00:00")
    page.get_by_label("Until:").fill("2024-01-03T23:00")
    page.get_by_role("button", name="Count the runs").click()
    expect(page.get_by_role("status")).to_contain_text("3 runs would start")
    page.get_by_role("button", name="Start 3 runs").click()
    expect(page.locator(".messagelist")).to_contain_text("3 runs were started.")


def test_the_form_on_a_phone_by_night(open_page: Open) -> None:
    page = open_page(color_scheme="dark", viewport=PHONE)
    page.goto(reverse(ADD))
    for expression, shown in (("*/15 9-17 * * 1-5", "every 15 minutes"), ("x" * 150, "has to have five fields")):
        page.get_by_label("Expression:").fill(expression)
        expect(page.locator(PREVIEW)).to_contain_text(shown)
        assert too_wide(page) == []
        assert too_faint(page) == {}


def test_without_scripts_a_button_tells_it(open_page: Open) -> None:
    page = open_page(java_script_enabled=False)
    page.goto(reverse(ADD))
    page.get_by_label("Expression:").fill("0 * * * *")
    page.get_by_role("button", name="Show when it fires").click()
    expect(page.locator(PREVIEW)).to_contain_text("It fires every hour")
    assert not Schedule.objects.exists()
