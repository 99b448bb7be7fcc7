"""The example as a new user meets it: an order hangs, and an operator lets it go on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.browser.conftest import watched
from tests.browser.shop import PASSWORD, shop
from tests.example.conftest import example_environment  # noqa: F401  (a fixture)
from tests.processes import wait_until


def test_the_event_that_an_order_waits_for_is_sent_from_the_admin(
    browser: Browser,
    example_environment: Callable[..., dict[str, str]],  # noqa: F811
    tmp_path: Path,
) -> None:
    with shop(example_environment(), tmp_path) as at, watched(browser, base_url=at.url) as page:
        at.order()
        wait_until(lambda: at.status() == "packing", 60)
        page.goto("/admin/django_durable/run/")
        page.get_by_label("Username").fill("admin")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        page.locator("#result_list").get_by_role("link", name="shop.fulfil_order").click()
        wait_until(lambda: page.reload() and page.locator(".durable-pill-waiting").count(), 60)
        expect(page.locator("#content-main")).to_contain_text("charge card")
        page.get_by_role("button", name="Send an event").click()
        expect(page.get_by_label("Event")).to_have_value("packed")
        page.get_by_label("Payload").fill('{"tracking": "BY-HAND-1"}')
        page.get_by_label("Reason").fill("The warehouse has called.")
        page.get_by_role("button", name="Send the event").click()
        wait_until(lambda: at.status() == "shipped", 60)
        page.reload()
        expect(page.locator(".durable-pill-succeeded").first).to_be_visible()
        expect(page.locator("#content-main")).to_contain_text("BY-HAND-1")
        expect(page.locator("#content-main")).to_contain_text("The warehouse has called.")
