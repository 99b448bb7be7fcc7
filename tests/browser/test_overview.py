"""The overview while somebody looks at it: what is new comes, what is not is not sent, and nobody asks in vain."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from django.contrib.sessions.models import Session
from django.urls import reverse
from playwright.sync_api import Locator, Page, Request, expect

from django_durable.models import Audit, Run
from tests.admin.world import make_run, make_worker
from tests.processes import wait_until

FRAGMENT = "/overview/fragment/"
PART = f'[data-durable-refresh*="{FRAGMENT}"]'


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

    def until(self, is_so: Callable[[], bool]) -> None:
        """As ``wait_until``, and the browser's events come in meanwhile."""
        wait_until(lambda: self.page.wait_for_timeout(10) or is_so())


@pytest.fixture
def overview(page: Page) -> Watched:
    make_worker(host="mill")
    watched = Watched(page)
    page.on("request", lambda request: watched.asked.append(request) if FRAGMENT in request.url else None)
    page.on("response", lambda answer: watched.answers.append(answer.status) if FRAGMENT in answer.url else None)
    # Stopped before the page comes: however long that takes, it has asked for nothing yet.
    now = time.time()
    page.clock.install(time=now)
    page.clock.pause_at(now + 1)
    page.goto(reverse("admin:django_durable_overview"))
    page.evaluate(
        """part => {
            window.isSamePage = true;
            window.taken = 0;
            document.querySelector(part).addEventListener("durable:answered", () => { window.taken += 1; });
        }""",
        PART,
    )
    return watched


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
    overview.needs.get_by_role("button", name="Resume").click()
    expect(overview.page.locator("#content")).to_contain_text("This can be done to 3 runs.")
    assert set(Run.objects.values_list("status", flat=True)) == {status}, "it is asked first"
    overview.page.get_by_role("button", name="Yes, do it").click()
    expect(overview.page.locator(".messagelist")).to_contain_text("3 runs go on.")
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
