"""The example as a new user meets it: an order hangs, and an operator lets it go on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import DESK, PHONE, watched
from tests.browser.seeing import contrasts, too_faint, too_wide
from tests.example.conftest import example_environment  # noqa: F401  (a fixture)
from tests.example.open_shop import PASSWORD, USER, open_shop
from tests.processes import wait_until

SETTINGS = "tests.browser.shop_settings"
ORDER = "W-1"


def test_the_event_that_an_order_waits_for_is_sent_from_the_admin(
    browser: Browser,
    example_environment: Callable[..., dict[str, str]],  # noqa: F811
    tmp_path: Path,
) -> None:
    environment = example_environment(DJANGO_SETTINGS_MODULE=SETTINGS)
    with open_shop(environment, tmp_path) as shop, watched(browser, base_url=shop.url) as page:
        shop.order(ORDER)
        wait_until(lambda: shop.status(ORDER) == "packing")
        page.goto("/admin/django_durable/run/")
        page.get_by_label("Username").fill(USER)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        page.locator("#result_list").get_by_role("link", name="shop.fulfil_order").click()
        wait_until(lambda: page.reload() and page.locator(".durable-pill-waiting").count())
        expect(page.locator("#content-main")).to_contain_text("charge card")
        page.get_by_role("button", name="Send an event").click()
        expect(page.get_by_label("Event")).to_have_value("packed")
        page.get_by_label("Payload").fill('{"tracking": "BY-HAND-1"}')
        page.get_by_label("Reason").fill("The warehouse has called.")
        page.get_by_role("button", name="Send the event").click()
        wait_until(lambda: shop.status(ORDER) == "shipped")
        # Then it has to mail the receipt still. And each of its steps that has succeeded has such a pill.
        wait_until(lambda: page.reload() and page.locator(".durable-title .durable-pill-succeeded").count())
        expect(page.locator("#content-main")).to_contain_text("BY-HAND-1")
        expect(page.locator("#content-main")).to_contain_text("The warehouse has called.")
        the_order_shows_its_run(page)


def the_order_shows_its_run(page: Page) -> None:
    """On the page that the shop's own ModelAdmin makes, by day and on a phone at night."""
    page.goto("/admin/shop/order/")
    page.locator("#result_list").get_by_role("link", name=ORDER).click()
    ours = page.locator(".durable-object-runs")
    expect(ours.locator(".durable-pill-succeeded")).to_be_visible()
    # A click waits for the page and not for its stylesheets.
    page.wait_for_load_state()
    for scheme, size in (("light", DESK), ("dark", PHONE)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size(size)
        assert any("durable-pill" in text for text in contrasts(page))
        assert too_faint(page) == {}
        assert too_wide(page) == []
    ours.get_by_role("link", name="shop.fulfil_order").click()
    expect(page.locator("#content-main.durable-run")).to_be_visible()
