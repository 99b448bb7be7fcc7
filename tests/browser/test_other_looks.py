"""Themes that bring templates of their own: our pages can be read in them, on a desk and on a phone, and used."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import PATIENCE_MS, PHONE, Sites
from tests.browser.looks import FAILED, ROW, THEMES, WORKFLOWS, Look
from tests.browser.seeing import contrasts, faint_of, too_wide
from tests.browser.watching import REPORT_BUT_OTHERS_SCRIPTS, watch

DESK = {"color_scheme": "light"}
AT_NIGHT = {"color_scheme": "dark", "viewport": PHONE, "is_mobile": True, "has_touch": True}
OURS = "/admin/django_durable/"
RUNS = f"{OURS}run/"
OVERVIEW = f"{RUNS}overview/"
ROWS = "/admin/app/counter/"
STOCK = ("/admin/auth/user/", "/admin/auth/user/1/change/", ROWS, f"{ROWS}add/")
"""The page of a row that is still to be made has no runs, and is all the theme's."""
HISTORY = "the history of a run"
"""Django's own words in the theme's own page: none of the texts there is ours."""


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
    judge(browser, site, theirs, options, partial(the_way, workflow=workflow))


def test_so_are_those_beside_that_way(browser: Browser, site: Look, theirs: list[str]) -> None:
    """The lists, a page of each kind, the forms, and a row of the project's own with its runs: once, where there is
    little room and other colours than most are made for."""
    judge(browser, site, theirs, AT_NIGHT, the_rooms)


def judge(
    browser: Browser, site: Look, theirs: list[str], options: dict[str, Any], way: Callable[[Page], Iterator[str]]
) -> None:
    """Look at each page on the way. Raises AssertionError where our texts are faint, a page is wide or complains."""
    complaints: list[str] = []
    faint, wide = {}, {}
    with visited(browser, site, complaints, **options) as page:
        for name in way(page):
            # A click waits for the page and not for its stylesheets.
            page.wait_for_load_state()
            found = contrasts(page)
            assert found or name == HISTORY, name
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
    open_first(page)
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


def the_rooms(page: Page) -> Iterator[str]:
    page.goto(f"{RUNS}workflows/")
    expect(page.get_by_role("heading", name="Held", exact=True)).to_be_visible()
    yield "the workflows"
    page.get_by_role("link", name="Start a run").first.click()
    expect(page.get_by_label("Idempotency key")).to_be_visible()
    yield "the form that starts a run"
    for rows in ("schedule", "worker"):
        page.goto(f"{OURS}{rows}/")
        expect(page.locator("#result_list")).to_be_visible()
        yield f"the list of {rows}s"
        open_first(page)
        expect(page.locator(f"#content-main.durable-{rows}")).to_be_visible()
        yield f"a {rows}"
    page.goto(f"{OURS}schedule/add/")
    page.get_by_label("Expression:").fill("30 7 * * 1-5")
    expect(page.locator("[data-durable-preview]")).to_contain_text("at 07:30 on weekdays")
    yield "the form of a schedule"
    yield from beside_a_run(page)
    page.goto(ROWS)
    page.locator("#result_list").get_by_role("link", name=ROW).click()
    # Not on the page before; and its scripts have to be there for the tab.
    expect(page.locator(".durable-object-runs")).to_be_attached()
    page.wait_for_load_state()
    # Jazzmin has a tab for each inline, which is faded in.
    if (tab := page.get_by_role("tab", name="Runs")).count():
        tab.click()
        expect(page.locator("#runs-tab")).to_have_class(re.compile(r"\bshow\b"))
    expect(page.locator(".durable-object-runs tbody tr")).to_have_count(3)
    expect(page.locator(".durable-object-runs .durable-pill").first).to_be_visible()
    yield "a row of the project's with its runs"


def beside_a_run(page: Page) -> Iterator[str]:
    """What its buttons ask, and its history."""
    page.goto(f"{RUNS}?status=blocked")
    open_first(page)
    address = page.url
    for button, field in (("Send an event", "Payload"), ("Fork", "From step")):
        page.goto(address)
        page.locator(".durable-head").get_by_role("button", name=button).click()
        expect(page.get_by_label(field)).to_be_visible()
        yield f"what {button} asks"
    page.goto(address)
    page.locator(".durable-id").get_by_role("link", name="History").click()
    expect(page).to_have_url(re.compile("/history/$"))
    yield HISTORY


def open_first(page: Page) -> None:
    """The page of the list's first row."""
    page.locator("#result_list tbody a:visible").first.click()
