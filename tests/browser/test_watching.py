"""The eyes of these tests: what would be wrong with a page is noticed."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import a_page
from tests.browser.seeing import too_faint, too_wide
from tests.browser.watching import watch
from tests.csp import POLICY

SITE = "http://site.test/"


POLICED = {"Content-Security-Policy": POLICY}


def complaints_of(browser: Browser, html: str, headers: dict[str, str] = POLICED) -> list[str]:
    context = browser.new_context()
    complaints = watch(context)
    context.route(SITE, lambda route: route.fulfill(body=html, headers=headers))
    context.route(f"{SITE}gone", lambda route: route.fulfill(status=404))
    page = context.new_page()
    page.goto(SITE, wait_until="networkidle")
    context.close()
    return complaints


@pytest.mark.parametrize(
    ("html", "noticed"),
    [
        ("<script>document.title = 1</script>", "CSP: script-src"),
        ("<style>p { color: red }</style>", "CSP: style-src"),
        ("<p style='color: red'>", "CSP: style-src-attr"),
        ("<p onclick='x()'>", "CSP: script-src-attr"),
        ("<img src='https://elsewhere.test/x.png'>", "CSP: img-src"),
        ("<img src='/gone'>", "404: GET http://site.test/gone"),
    ],
)
def test_what_breaks_the_policy_or_is_missing(browser: Browser, html: str, noticed: str) -> None:
    assert any(noticed in complaint for complaint in complaints_of(browser, f"<!doctype html><p>{html}"))


def test_what_scripts_complain_of(browser: Browser) -> None:
    context = browser.new_context()
    complaints = watch(context)
    page = context.new_page()
    page.evaluate("() => { console.error('broken'); setTimeout(() => missing(), 0); }")
    page.evaluate("() => new Promise((done) => setTimeout(done, 20))")
    context.close()
    assert "console: broken ()" in complaints
    assert any("missing is not defined" in complaint for complaint in complaints)


def test_a_page_that_brings_no_policy_would_break_none(browser: Browser) -> None:
    assert complaints_of(browser, "<!doctype html><p>well", {}) == [f"no policy: {SITE}"]


def test_a_sound_page_has_no_complaints(browser: Browser) -> None:
    assert complaints_of(browser, "<!doctype html><p>well") == []


@pytest.mark.parametrize(
    ("style", "is_faint"),
    [
        ("color: #767676; background: #fff", False),
        ("color: #777; background: #fff", True),
        ("color: #000; opacity: 0.4; background: #fff", True),
        ("color: rgb(0 0 0 / 40%); background: #fff", True),
        ("color: #fff; background: rgb(0 0 0 / 30%)", True),
        ("color: #fff; background: rgb(0 0 0 / 80%)", False),
    ],
)
def test_faint_text(browser: Browser, style: str, is_faint: bool) -> None:
    page = a_page(browser, f'<div style="background: #fff"><p class="durable-x"><b style="{style}">read me')
    assert bool(too_faint(page)) is is_faint
    page.context.close()


def test_what_sticks_out(browser: Browser) -> None:
    page = a_page(browser, "<p id=long>" + "w" * 200)
    found = too_wide(page)
    assert found[-1] == "p#long.null"
    page.set_content('<div style="overflow-x: auto"><p>' + "w" * 200)
    assert too_wide(page) == []
    page.context.close()
