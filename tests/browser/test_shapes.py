"""Bars, borders and rings: the eyes of these tests see one that is too faint, and those of ours are not."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import Browser, expect

from django_durable.core.payloads.codec import encode
from tests.admin.pages import list_url, run_url
from tests.admin.world import make_entry, make_run, make_worker
from tests.browser.conftest import Open, a_page
from tests.browser.seeing import is_dark, too_faint
from tests.browser.shapes import lost_of, pixels, ring_here, rings, shapes

OVERVIEW = "admin:django_durable_overview"
ENOUGH, TOO_LITTLE = "#949494", "#959595"
"""On white."""
HATCH = '<defs><pattern id="h"><rect class="durable-hatch" style="fill: #ccc"></rect></pattern></defs>'


def lost(browser: Browser, html: str) -> set[str]:
    page = a_page(browser, f'<body style="background: #fff">{html}')
    found = lost_of(shapes(page))
    page.context.close()
    return set(found)


BAR = '<p class="durable-x"><meter style="appearance: none; background: #fff; color: {}; border: 1px solid {}">'


@pytest.mark.parametrize(
    ("html", "name"),
    [
        ('<p><b class="durable-pill" style="border: 1px solid {}">x</b>', "b.durable-pill in ."),
        ('<svg class="durable-track"><rect width="9" height="9" style="fill: {}"/>', "rect. in .durable-track"),
        ('<svg class="durable-x"><rect width="9" height="9" style="fill: none; stroke: {}"/>', "rect. in .durable-x"),
        ('<p class="durable-x"><input style="border: 1px solid {}; background: #fff">', "input. in .durable-x"),
        ('<p class="durable-x"><button aria-pressed style="border: 0; background: {}">x', "button. in .durable-x"),
        ('<p class="durable-tabs"><a aria-current="page" style="border: 3px solid {}">x', "the tab of this page"),
        (BAR.format("{}", "#000"), "meter. in .durable-x: full"),
        (BAR.format("#000", "{}"), "meter. in .durable-x: its end"),
    ],
)
def test_what_is_too_faint_is_noticed(browser: Browser, html: str, name: str) -> None:
    assert lost(browser, html.format(TOO_LITTLE)) == {name}
    assert lost(browser, html.format(ENOUGH)) == set()


def test_a_bar_has_to_be_seen_on_the_hatching_as_well(browser: Browser) -> None:
    bar = '<svg class="durable-track">{}<rect class="bar" width="9" height="9" style="fill: #777"></rect></svg>'
    assert lost(browser, bar.format("")) == set()
    assert lost(browser, bar.format(HATCH)) == {"rect.bar in .durable-track"}


@pytest.mark.parametrize(
    ("bars", "line", "noticed"),
    [
        ("fill: #777", "#666", {"started over", "succeeded on"}),
        ("fill: #777; stroke: #fff", "#666", {"started over"}),
        ("fill: #777; stroke: #888", "#000", {"succeeded on"}),
        ("fill: #777; stroke: #fff", "#000", set()),
    ],
)
def test_what_lies_on_each_other_in_a_chart(browser: Browser, bars: str, line: str, noticed: set[str]) -> None:
    part = '<path class="durable-chart-{}" d="M0 0h9v9h-9z" style="{}"/>'
    drawn = part.format("failed", bars) + part.format("succeeded", bars)
    drawn += part.format("started", f"fill: none; stroke: {line}")
    found = lost(browser, f'<svg class="durable-chart-picture">{drawn}</svg>')
    assert {" ".join(name.removeprefix("durable-chart-").split()[:2]) for name in found} == noticed


@pytest.mark.parametrize(
    ("style", "is_lost"),
    [
        ("outline: none", True),
        (f"outline: 2px solid {TOO_LITTLE}", True),
        (f"outline: 2px solid {ENOUGH}", False),
        ("outline: 2px solid #000; outline-offset: -2px; background: #222", True),
        ("", False),
    ],
)
def test_a_ring_that_is_not_seen(browser: Browser, style: str, is_lost: bool) -> None:
    page = a_page(browser, f'<body style="background: #fff"><p class="x"><a href="/" style="{style}">x</a>')
    page.keyboard.press("Tab")
    name, contrast = ring_here(page)
    assert name == "a. in .x"
    assert (contrast < 3) is is_lost
    assert bool(lost_of(rings(page))) is is_lost
    page.context.close()


def test_what_something_lies_over(browser: Browser) -> None:
    page = a_page(browser, '<p class="x"><a href="/">x</a><b style="position: fixed; inset: 0; background: #fff">')
    page.keyboard.press("Tab")
    assert ring_here(page) == ("a. in .x", 0)
    page.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_how_far_something_is_is_painted_as_it_is_styled(browser: Browser, open_page: Open, scheme: str) -> None:
    """What is within such a bar is the browser's own, and no style of it can be asked for."""
    worker = make_worker(concurrency=2)
    run = make_run("running", leased_by=worker.pk)
    run.payloads.create(kind="progress", data=encode({"done": 1, "total": 2}))
    page, bare = open_page(color_scheme=scheme), a_page(browser, "")
    for url, kind in ((run_url(run), "progress"), (list_url(), "progress"), (reverse(OVERVIEW), "meter")):
        page.goto(url)
        bar = page.locator(kind).first
        styled = bar.evaluate("bar => [getComputedStyle(bar).color, getComputedStyle(bar).backgroundColor]")
        assert pixels(bare, bar, 0.25, 0.75) == styled
    bare.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_how_the_switch_stands(open_page: Open, scheme: str) -> None:
    page = open_page(color_scheme=scheme)
    page.goto(reverse(OVERVIEW))
    pause = page.get_by_role("button", name="Pause refreshing")
    loose = shapes(page)
    pause.click()
    expect(pause).to_have_attribute("aria-pressed", "true")
    assert lost_of(loose | shapes(page)) == {}
    assert too_faint(page) == {}
    assert is_dark(page, "[aria-pressed]") is not is_dark(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_bars_over_idle_time_and_in_the_row_that_a_link_leads_to(open_page: Open, scheme: str) -> None:
    now = timezone.now()
    run = make_run("waiting", created_at=now - timedelta(days=3), started_at=now - timedelta(days=3))
    for seq, path in enumerate(("race", "race/a/x", "race/b/y"), 1):
        started = now - timedelta(days=3 - seq)
        make_entry(run, path, seq, kind="race" if seq == 1 else "step", started_at=started, finished_at=now)
    make_entry(run, "packed", 4, kind="event", status="waiting", awaits="packed", finished_at=None)
    page = open_page(color_scheme=scheme)
    for seq in range(1, 5):
        page.goto(f"{run_url(run)}#entry-{seq}")
        assert page.locator("tr:target").count() == 1
        found = shapes(page)
        assert any("durable-bar-scope" in name for name in found)
        assert lost_of(found) == {}
        assert too_faint(page) == {}
    assert page.locator(".durable-hatch").count(), "no time was drawn short"
