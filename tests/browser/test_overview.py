"""The overview while somebody looks at it: what is new comes, what is not is not sent, and nobody asks in vain."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import Locator, Page, Request, Route, expect

from django_durable.models import Audit, Run
from tests.admin.overviews import tally
from tests.admin.world import make_run, make_worker
from tests.browser.conftest import Open
from tests.processes import wait_until

FRAGMENT = "/overview/fragment/"
PART = f'[data-durable-refresh*="{FRAGMENT}"]'
PATIENCE = 30
"""Seconds that the page waits for an answer."""
HOUR = 3600

INSTRUMENTED = """
part => {
    window.isSamePage = true;
    window.asked = window.taken = 0;
    const element = document.querySelector(part), ask = window.fetch;
    element.addEventListener("durable:answered", () => { window.taken += 1; });
    window.fetch = (url, options) => {
        if (url === element.dataset.durableRefresh) window.asked += 1;
        return ask(url, options);
    };
}
"""
HIDES = """
isHidden => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => isHidden });
    document.dispatchEvent(new Event("visibilitychange"));
}
"""
"""What another tab in front of this one does: a browser without a screen shows each of them."""


@dataclass
class Watched:
    """The overview, with a clock that the test moves, and what its refreshing part was answered."""

    page: Page
    asked: list[Request] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)

    @property
    def part(self) -> Locator:
        return self.page.locator(PART)

    @property
    def needs(self) -> Locator:
        return self.page.locator("#durable-needs")

    def later(self, seconds: int = 5) -> None:
        self.page.clock.run_for(seconds * 1_000)

    def ask(self) -> int:
        """Let it ask once more; the answer's status."""
        # One that was under way is no answer to this: it may know nothing of what the test did meanwhile.
        self.until(lambda: len(self.asked) == len(self.answers) == self.taken)
        before = self.taken
        self.later()
        self.until(lambda: self.taken > before)
        return self.answers[-1]

    @property
    def taken(self) -> int:
        """How many answers the page is done with: after each it has set itself the time of the next."""
        return int(self.page.evaluate("() => window.taken"))

    @property
    def begun(self) -> int:
        """How often it has asked, as the page itself knows: what it asked for just now is not told here yet."""
        return int(self.page.evaluate("() => window.asked"))

    @property
    def stale(self) -> Locator:
        return self.page.locator("[data-durable-when=stale]")

    def hide(self, is_hidden: bool) -> None:
        self.page.evaluate(HIDES, is_hidden)

    def miss(self, answer: Callable[[Route], object]) -> None:
        """Let it ask, and be answered so. One that is not answered is given up."""
        taken = self.taken
        self.page.route(f"**{FRAGMENT}", answer)
        self.later()
        if answer is unanswered:
            self.later(PATIENCE)
        self.until(lambda: self.taken > taken)
        self.page.unroute(f"**{FRAGMENT}")

    def until(self, is_so: Callable[[], bool]) -> None:
        """As ``wait_until``, and the browser's events come in meanwhile."""
        wait_until(lambda: self.page.wait_for_timeout(10) or is_so())


def unanswered(_route: Route) -> None:
    """The site takes the question, and says nothing."""


def broken(route: Route) -> None:
    route.fulfill(status=503)


def unreachable(route: Route) -> None:
    route.abort()


def look(page: Page) -> Watched:
    # In the time to come: however long the test takes, its heartbeat stays as young as it is told to be.
    make_worker(host="mill", heartbeat_at=timezone.now() + timedelta(hours=1))
    watched = Watched(page)
    page.on("request", lambda request: watched.asked.append(request) if FRAGMENT in request.url else None)
    page.on("response", lambda answer: watched.answers.append(answer.status) if FRAGMENT in answer.url else None)
    # Stopped before the page comes: however long that takes, it has asked for nothing yet. Until then
    # the clock goes, and it is never put back: so it begins in the past.
    now = time.time()
    page.clock.install(time=now - HOUR)
    page.clock.pause_at(now)
    page.goto(reverse("admin:django_durable_overview"))
    page.evaluate(INSTRUMENTED, PART)
    return watched


@pytest.fixture
def overview(page: Page) -> Watched:
    return look(page)


@pytest.fixture
def forsaken(open_page: Open) -> Watched:
    """Likewise, of a site that fails: the browser complains of that."""
    return look(open_page(meant=FRAGMENT))


def test_what_is_new_comes_and_what_is_not_is_not_sent(overview: Watched) -> None:
    assert overview.ask() == 200, "the first time it has nothing to compare with"
    assert overview.ask() == 304
    make_run("blocked", block_reason="diverged")
    assert overview.ask() == 200
    expect(overview.needs).to_contain_text("1 run is blocked")
    assert overview.ask() == 304
    assert overview.page.evaluate("() => window.isSamePage"), "the page was loaded anew"


@pytest.mark.parametrize("status", ["failed", "blocked"])
def test_what_has_stopped_goes_on_after_two_clicks(overview: Watched, status: str) -> None:
    """With the button that came while one looked."""
    overview.ask()
    runs = [make_run(status) for _ in range(3)]
    overview.ask()
    overview.needs.get_by_role("button", name="Resume: 3 runs").click()
    expect(overview.page.locator("#content")).to_contain_text("This can be done to 3 runs.")
    assert set(Run.objects.values_list("status", flat=True)) == {status}, "it is asked first"
    overview.page.get_by_role("button", name="Yes, do it").click()
    expect(overview.page.locator(".messagelist")).to_contain_text("3 runs go on.")
    expect(overview.page).to_have_url(re.compile("/overview/$"))
    assert set(Run.objects.values_list("status", flat=True)) == {"queued"}
    assert Audit.objects.filter(run__in=runs, verb="resume", actor="boss").count() == 3


def test_nothing_is_asked_for_while_it_is_paused(overview: Watched) -> None:
    overview.ask()
    pause = overview.page.get_by_role("button", name="Pause refreshing")
    pause.click()
    expect(overview.part).to_have_attribute("data-durable-state", "paused")
    make_run("blocked", block_reason="diverged")
    asked = len(overview.asked)
    overview.later(600)
    expect(overview.needs).not_to_contain_text("blocked")
    pause.click()
    expect(overview.needs).to_contain_text("1 run is blocked")
    expect(overview.part).to_have_attribute("data-durable-state", "live")
    assert len(overview.asked) == asked + 1, "it has asked while it was paused"


def test_who_is_logged_out_is_told_and_it_asks_no_more(overview: Watched) -> None:
    overview.ask()
    note = overview.page.locator("[data-durable-when=stopped]")
    expect(note).to_be_hidden()
    Session.objects.all().delete()
    overview.ask()
    expect(overview.part).to_have_attribute("data-durable-state", "stopped")
    expect(note).to_be_visible()
    expect(overview.part).to_contain_text("mill")
    asked = len(overview.asked)
    overview.later(600)
    # The button's own answer comes after anything that was asked for before it.
    overview.page.get_by_role("button", name="Pause refreshing").click()
    assert len(overview.asked) == asked


@pytest.mark.parametrize("answer", [unreachable, broken, unanswered])
def test_who_looks_at_what_is_old_is_told_until_it_is_not(forsaken: Watched, answer: Callable[[Route], object]) -> None:
    forsaken.ask()
    expect(forsaken.stale).to_be_hidden()
    forsaken.miss(answer)
    expect(forsaken.part).to_have_attribute("data-durable-state", "stale")
    expect(forsaken.stale).to_be_visible()
    expect(forsaken.part).to_contain_text("mill")
    make_run("blocked", block_reason="diverged")
    forsaken.later(10)
    expect(forsaken.needs).to_contain_text("1 run is blocked")
    expect(forsaken.part).to_have_attribute("data-durable-state", "live")
    expect(forsaken.stale).to_be_hidden()


def test_a_site_that_does_not_answer_is_asked_ever_less_often_until_it_does(forsaken: Watched) -> None:
    """Hundreds of tabs that ask every five seconds keep a site down that comes up again."""
    # They have times of their own, and a clock that jumps would give up what they have just asked for.
    forsaken.page.locator('[data-durable-refresh*="/charts/"]').evaluate("(charts) => charts.remove()")
    forsaken.ask()
    forsaken.page.route(f"**{FRAGMENT}", unreachable)
    for seconds in (5, 10, 20, 40, 60, 60):
        waits_for(forsaken, seconds)
    forsaken.page.unroute(f"**{FRAGMENT}")
    waits_for(forsaken, 60)
    expect(forsaken.part).to_have_attribute("data-durable-state", "live")
    waits_for(forsaken, 5)


def waits_for(watched: Watched, seconds: int) -> None:
    """Before it asks again, for so long and no longer."""
    asked, taken = watched.begun, watched.taken
    watched.later(seconds - 1)
    assert watched.begun == asked, f"it has asked before {seconds} s were over"
    watched.later(1)
    assert watched.begun == asked + 1, f"it has not asked after {seconds} s"
    watched.until(lambda: watched.taken > taken)


def test_nothing_is_asked_for_while_nobody_sees_it_and_then_at_once(overview: Watched) -> None:
    overview.ask()
    overview.hide(True)
    asked = overview.begun
    make_run("blocked", block_reason="diverged")
    overview.later(600)
    assert overview.begun == asked, "it has asked while nobody saw it"
    overview.hide(False)
    expect(overview.needs).to_contain_text("1 run is blocked")
    assert overview.begun == asked + 1
    assert overview.ask() == 304, "it goes on"


def test_what_was_asked_for_is_not_missed_where_nobody_sees_it(forsaken: Watched) -> None:
    forsaken.ask()
    asked = forsaken.begun
    forsaken.page.route(f"**{FRAGMENT}", unanswered)
    forsaken.later()
    with forsaken.page.expect_event("requestfailed", lambda request: FRAGMENT in request.url):
        forsaken.hide(True)
    assert forsaken.begun == asked + 1
    forsaken.later(600)
    assert forsaken.begun == asked + 1, "it has asked while nobody saw it"
    expect(forsaken.part).to_have_attribute("data-durable-state", "live")
    expect(forsaken.stale).to_be_hidden()
    forsaken.page.unroute(f"**{FRAGMENT}")
    make_run("blocked", block_reason="diverged")
    forsaken.hide(False)
    expect(forsaken.needs).to_contain_text("1 run is blocked")


def test_a_page_that_is_opened_behind_another_asks_when_it_is_seen(overview: Watched) -> None:
    overview.page.add_init_script(f"({HIDES})(true)")
    overview.page.reload()
    overview.page.evaluate(INSTRUMENTED, PART)
    make_run("blocked", block_reason="diverged")
    overview.later(600)
    assert overview.begun == 0, "it has asked while nobody saw it"
    overview.hide(False)
    expect(overview.needs).to_contain_text("1 run is blocked")


def test_what_somebody_has_opened_stays_open(overview: Watched) -> None:
    # One, although another may begin in between.
    minute = timezone.now().replace(second=0, microsecond=0)
    tally(started=3, minute=minute)
    figures = overview.page.locator("#durable-hour-figures")
    # The charts are asked for less often than the rest.
    overview.later(30)
    expect(figures.locator("tbody tr")).to_have_count(1)
    expect(figures.locator("table")).to_be_hidden()
    figures.get_by_text("The figures").click()
    expect(figures.locator("table")).to_be_visible()
    tally(started=4_000, queue="vip", minute=minute)
    overview.later(30)
    expect(figures.locator("tbody")).to_contain_text("4,003")
    expect(figures.locator("table")).to_be_visible()
    expect(overview.page.locator("#durable-day-figures table")).to_be_hidden()
