"""Themes that bring templates of their own: our pages can be read in them, on a desk and on a phone, and used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import PATIENCE_MS, PHONE, Sites
from tests.browser.looks import FAILED, THEMES, WORKFLOWS, Look
from tests.browser.seeing import contrasts, faint_of, too_wide
from tests.browser.watching import REPORT_BUT_OTHERS_SCRIPTS, watch

DESK = {"color_scheme": "light"}
AT_NIGHT = {"color_scheme": "dark", "viewport": PHONE, "is_mobile": True, "has_touch": True}
RUNS = "/admin/django_durable/run/"
OVERVIEW = f"{RUNS}overview/"
STOCK = ("/admin/auth/user/", "/admin/auth/user/1/change/")


@pytest.fixture(scope="module", params=THEMES)
def site(request: pytest.FixtureRequest, sites: Sites) -> Look:
    return sites[request.param]()


@pytest.fixture(scope="module")
def theirs(browser: Browser, site: Look) -> list[str]:
    """What the templates of a look break of the policy on Django's own pages. On our pages it is none of ours."""
    complaints: list[str] = []
    with visited(browser, site, complaints, **DESK) as page:
        for url in STOCK:
            page.goto(url)
    return complaints


@contextmanager
def visited(browser: Browser, site: Look, complaints: list[str], **options: Any) -> Iterator[Page]:
    context = browser.new_context(base_url=site.url, **options)
    context.set_default_timeout(PATIENCE_MS)
    context.add_cookies([site.cookie])  # type: ignore[list-item]
    heard = watch(context, REPORT_BUT_OTHERS_SCRIPTS)
    try:
        yield context.new_page()
    finally:
        context.close()
        complaints.extend(heard)


@pytest.mark.parametrize(
    ("options", "workflow"),
    list(zip((DESK, AT_NIGHT), WORKFLOWS, strict=True)),
    ids=["light, on a desk", "dark, on a phone"],
)
def test_ours_are_at_home_in_it(
    browser: Browser, site: Look, theirs: list[str], options: dict[str, Any], workflow: str
) -> None:
    """All that match are resumed by clicks, and each page on the way there can be read."""
    complaints: list[str] = []
    faint, wide = {}, {}
    with visited(browser, site, complaints, **options) as page:
        for name in the_way(page, workflow):
            found = contrasts(page)
            assert found, name
            if unreadable := faint_of(found):
                faint[name] = unreadable
            if sticking_out := too_wide(page):
                wide[name] = sticking_out
    assert faint == {}
    assert wide == {}
    assert set(complaints) - set(theirs) == set()


def the_way(page: Page, workflow: str) -> Iterator[str]:
    page.goto(OVERVIEW)
    expect(page.get_by_role("heading", name="Needs a person")).to_be_visible()
    yield "the overview"
    page.goto(f"{RUNS}?status=blocked")
    yield "some runs"
    page.locator("#result_list tbody a:visible").first.click()
    expect(page.locator(".durable-pill-blocked").first).to_be_visible()
    yield "a run"
    page.goto(f"{RUNS}?status=failed&workflow={workflow}")
    page.locator("#action-toggle").check()
    page.get_by_role("button", name="Select all that match").first.click()
    page.locator("select[name=action]").first.select_option("resume_selected")
    yield "all that match"
    page.locator(".actions [type=submit]").first.click()
    expect(page.locator(".durable-why")).to_have_text(f"This can be done to {FAILED} runs.")
    page.get_by_label("Reason").fill("The gateway answers again.")
    yield "the question"
    page.locator(".submit-row [type=submit]").click()
    expect(page.get_by_text(f"{FAILED} runs")).to_be_visible()
    yield "the answer"
    page.goto(f"{RUNS}?status=queued&workflow={workflow}")
    expect(page.locator("#result_list tbody input.action-select")).to_have_count(50)
    yield "those that were resumed"
