from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.looks import THEMES, Look, starting
from tests.browser.watching import watch

PATIENCE_MS = 30_000
expect.set_options(timeout=PATIENCE_MS)
DESK, PHONE = {"width": 1280, "height": 720}, {"width": 390, "height": 844}

Open = Callable[..., Page]
Sites = Mapping[str, Callable[[], Look]]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    # Playwright keeps a loop in this thread, in which Django would refuse to ask the database for anything.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    # As root, which many containers run as, Chromium has no sandbox.
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ["DURABLE_TEST_BROWSER"], args=options)
        yield browser
        browser.close()
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture(scope="session")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    """The admin in its other looks, by their names."""
    with ExitStack() as stack:
        yield {theme: stack.enter_context(starting(theme, tmp_path_factory.mktemp(theme))) for theme in THEMES}


@pytest.fixture(scope="session", autouse=True)
def _begun(request: pytest.FixtureRequest) -> None:
    """They take long to start, and do so while others are tested."""
    if any("sites" in getattr(item, "fixturenames", ()) for item in request.session.items):
        request.getfixturevalue("sites")


@pytest.fixture
def boss(transactional_db: None) -> User:
    user: User = User.objects.create_superuser("boss", password="secret")
    return user


@pytest.fixture
def open_page(browser: Browser, live_server: Any, boss: User) -> Iterator[Open]:
    """Opens pages of the site for the boss: ``open_page(**options)`` of Playwright's contexts. A test in which a page
    breaks the policy, or has anything to complain of, fails; but for ``meant``, an address that the test itself breaks.
    """
    opened = []

    def make(**options: Any) -> Page:
        made = watched(browser, base_url=live_server.url, **options)
        page = made.__enter__()
        opened.append(made)
        client = Client()
        client.force_login(boss)
        cookie = client.cookies[settings.SESSION_COOKIE_NAME]
        page.context.add_cookies([{"name": cookie.key, "value": cookie.value, "url": live_server.url}])
        return page

    yield make
    for made in opened:
        made.__exit__(None, None, None)


@pytest.fixture
def page(open_page: Open) -> Page:
    return open_page()


@contextmanager
def watched(browser: Browser, meant: str = "", **options: Any) -> Iterator[Page]:
    """A page in a context of its own. Raises AssertionError at the end where it has complained, and not of ``meant``
    only."""
    context = browser.new_context(**options)
    context.set_default_timeout(PATIENCE_MS)
    complaints = watch(context)
    try:
        yield context.new_page()
    finally:
        context.close()
    assert [each for each in complaints if not (meant and meant in each)] == []


def a_page(browser: Browser, html: str) -> Page:
    """One that shows this and nothing else, on a phone."""
    page = browser.new_context(viewport=PHONE).new_page()
    page.set_content(html)
    return page
