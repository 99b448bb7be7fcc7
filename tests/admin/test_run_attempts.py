"""Attempts of the run as a whole in its own row of the timeline, and those of polls in theirs."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from django_durable import PENDING, Context, Retry, durable_workflow
from django_durable.admin import journal
from django_durable.admin.journal import Try
from django_durable.admin.run_attempts import parts_of
from django_durable.admin.waterfall import BAR_LEAST
from django_durable.models import Run
from django_durable.testing import run_until_idle, travel
from tests.admin.conftest import LOOK, Person
from tests.admin.pages import ROUNDED, judge, run_url, text_of
from tests.admin.world import make_entry, make_line, make_run

Bars = list[tuple[str, float, float]]
answers: list[Any] = []
"""What the poll comes to, time by time; an error is raised."""


@durable_workflow(name="attempts.patient", retry=Retry(max_attempts=3, initial=60, factor=1, jitter=0))
def patient(ctx: Context) -> None:
    ctx.step("look", int)
    if ctx.attempt < 3:
        raise ValueError("no such card")


@durable_workflow(name="attempts.hopeless", retry=Retry(max_attempts=2, initial=60, jitter=0))
def hopeless(ctx: Context) -> None:
    raise ValueError("no such card")


def _answer() -> Any:
    found = answers.pop(0)
    if isinstance(found, Exception):
        raise found
    return found


@durable_workflow(name="attempts.asking", step_retry=Retry(max_attempts=3, initial=30, factor=1, jitter=0))
def asking(ctx: Context) -> None:
    ctx.poll("ask", _answer, every=60)


def worked(workflow: Any) -> Run:
    handle = workflow.enqueue()
    with travel():
        run_until_idle(skip_waits=True)
    run: Run = handle.refresh().run
    return run


def row_of(page: str, entry: int | None = None) -> str:
    """That of an entry, or of the run itself."""
    head = f'<tr id="entry-{entry}">' if entry else '<tr><th scope="row" class="durable-in-0"><bdi>the run</bdi>'
    [row] = re.findall(rf"{re.escape(head)}.*?</tr>", page, re.DOTALL)
    return str(row)


def bars_of(row: str) -> Bars:
    found = re.findall(r'<rect class="durable-bar-([a-z]+)" x="([\d.]+)%" width="([\d.]+)%"/>', row)
    return [(what, float(x), float(width)) for what, x, width in found]


def whats(bars: Bars) -> list[str]:
    return [what for what, *_ in bars]


def row_and_bars(client: Client, run: Run, entry: int | None = None) -> tuple[str, Bars]:
    page = client.get(run_url(run))
    assert judge(page) == []
    row = row_of(page.content.decode(), entry)
    return row, bars_of(row)


@pytest.fixture
def begun() -> datetime:
    return timezone.now() - timedelta(seconds=100)


# --- the run ---------------------------------------------------------------------------------


def test_a_run_that_succeeds_the_third_time_has_three_bars_and_two_waits_between_them(boss: Client) -> None:
    row, bars = row_and_bars(boss, worked(patient))
    _until_it_began, *bars = bars
    assert whats(bars) == ["scope", "failed", "wait", "scope", "failed", "wait", "scope"]
    attempts = [bar for bar in bars if bar[0] == "scope"]
    waits = [bar for bar in bars if bar[0] == "wait"]
    for (_, x, width), (before, after) in zip(waits, pairwise(attempts), strict=True):
        assert before[1] < x < after[1]
        # An attempt takes no time beside its wait.
        assert x + width == pytest.approx(after[1], abs=2 * BAR_LEAST)
        assert width > 2 * BAR_LEAST
    assert "3 attempts" in row


def test_each_stands_where_it_was(boss: Client, begun: datetime) -> None:
    def after(seconds: float) -> datetime:
        return begun + timedelta(seconds=seconds)

    run = make_run("succeeded", created_at=begun, started_at=after(10), finished_at=after(100), attempt=3)
    make_entry(run, "work", 1, started_at=after(60), finished_at=after(100))
    first = "attempt 1 failed, the next one comes in 20 s: ValueError: in 90 s"
    make_line(run, first, 1, at=after(30), attempt=1, seconds=15)
    make_line(run, "said by the run", 2, at=after(40))
    make_line(run, "attempt 2 failed, the next one comes at once: ValueError", 3, at=after(60), attempt=2, seconds=10)
    _, bars = row_and_bars(boss, run)
    assert [(what, round(x), round(width)) for what, x, width in bars] == [
        ("wait", 0, 10),
        # It had waited for something: who met the error had it for 15 seconds.
        ("scope", 10, 20),
        ("failed", 15, 15),
        ("wait", 30, 20),
        ("scope", 50, 10),
        ("failed", 50, 10),
        ("scope", 60, 40),
    ]


def test_a_run_that_waits_for_its_next_attempt_shows_until_when(boss: Client, begun: datetime) -> None:
    wake_at = timezone.now() + timedelta(seconds=50)
    more = {"waiting_on": "retry:", "wake_at": wake_at, "attempt": 2}
    run = make_run("waiting", created_at=begun, started_at=begun, **more)
    at = begun + timedelta(seconds=50)
    make_line(run, "attempt 1 failed, the next one comes in 100 s: ValueError", at=at, attempt=1, seconds=50)
    row, bars = row_and_bars(boss, run)
    assert whats(bars) == ["wait", "scope", "failed", "wait", "planned"]
    (_, x, width), (_, planned, rest) = bars[-2:]
    assert planned == pytest.approx(x + width, abs=ROUNDED)
    assert planned + rest == pytest.approx(100, abs=ROUNDED)
    assert "until" in row
    # The second one has not begun.
    assert "2 attempts" not in row


def test_one_whose_log_has_nothing_of_it_does_so_too(boss: Client, begun: datetime) -> None:
    more = {"waiting_on": "retry:", "wake_at": timezone.now() + timedelta(seconds=50), "attempt": 4}
    row, bars = row_and_bars(boss, make_run("waiting", created_at=begun, started_at=begun, **more))
    assert whats(bars) == ["wait", "scope", "planned"]
    assert "3 attempts" in row


@pytest.mark.parametrize(("attempt", "is_drawn"), [(1, False), (2, True)])
def test_where_nothing_is_journaled_there_are_attempts_to_be_drawn(boss: Client, attempt: int, is_drawn: bool) -> None:
    page = boss.get(run_url(make_run("failed", attempt=attempt)))
    assert ("Nothing is journaled yet." in text_of(page)) is not is_drawn
    assert ("durable-bar-scope" in page.content.decode()) is is_drawn


def test_one_that_waits_for_another_thing_has_begun_its_attempt(boss: Client, begun: datetime) -> None:
    more = {"waiting_on": "sleep:nap", "wake_at": timezone.now() + timedelta(seconds=50), "attempt": 2}
    row, bars = row_and_bars(boss, make_run("waiting", created_at=begun, started_at=begun, **more))
    assert whats(bars) == ["wait", "scope"]
    assert "2 attempts" in row and "until" not in row


def test_the_last_attempt_of_a_run_that_failed_failed_too(boss: Client) -> None:
    row, bars = row_and_bars(boss, worked(hopeless))
    assert whats(bars) == ["wait", "scope", "failed", "wait", "scope", "failed"]
    assert bars[-1][1] + bars[-1][2] == pytest.approx(100, abs=ROUNDED)
    assert "2 attempts" in row


@pytest.mark.parametrize("seconds", [-900, 900])
def test_however_wrong_a_worker_s_clock_is_they_lie_within_the_run(
    boss: Client, begun: datetime, seconds: float
) -> None:
    run = make_run("succeeded", created_at=begun, started_at=begun, attempt=2)
    told = "attempt 1 failed, the next one comes in 1e+99 s: ValueError"
    at = begun + timedelta(seconds=seconds)
    make_line(run, told, at=at, attempt=1, seconds=5)
    _, bars = row_and_bars(boss, run)
    assert set(whats(bars)) >= {"scope", "failed"}
    parts = parts_of(run, [Try(at - timedelta(seconds=5), at, 1e99)], timezone.now())
    assert all(begun <= part.start <= part.end <= run.finished_at for part in parts)


def test_what_failed_after_the_listed_entries_is_elsewhere(
    boss: Client, begun: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run("succeeded", created_at=begun, started_at=begun, attempt=2)
    for seq in (1, 2):
        start = begun + timedelta(seconds=10 * seq)
        make_entry(run, f"read {seq}", seq, started_at=start, finished_at=start + timedelta(seconds=10))
    told = "attempt 1 failed, the next one comes in 9 s: ValueError"
    make_line(run, told, at=begun + timedelta(seconds=60), attempt=1, seconds=5)
    assert "failed" in whats(row_and_bars(boss, run)[1])
    monkeypatch.setattr(journal.Window, "of", classmethod(lambda cls, query: cls(0, "", 1)))
    row, bars = row_and_bars(boss, run)
    assert set(whats(bars)) == {"wait", "scope"}
    assert "2 attempts" in row


def test_who_may_not_see_payloads_sees_when_and_not_what(person: Person) -> None:
    client, run = person(*LOOK), worked(patient)
    _, bars = row_and_bars(client, run)
    assert whats(bars).count("failed") == 2
    assert "no such card" not in client.get(run_url(run)).content.decode()


# --- polls -----------------------------------------------------------------------------------


def test_a_poll_that_succeeds_the_third_time_has_three_bars_and_the_waits_between(boss: Client) -> None:
    answers[:] = [OSError("away"), OSError("away"), "there"]
    run = worked(asking)
    row, bars = row_and_bars(boss, run, run.journal.get(path="ask").seq)
    assert whats(bars) == ["wait", "failed", "failed", "succeeded"]
    wait, *tries = bars
    assert wait[1] <= tries[0][1] and wait[1] + wait[2] >= tries[-1][1] - ROUNDED
    for before, after in pairwise(tries):
        assert after[1] > before[1] + before[2] - ROUNDED
    assert "3 attempts" in row


def test_what_failed_before_it_asked_again_is_drawn_as_well(boss: Client) -> None:
    answers[:] = [OSError("away"), PENDING, "there"]
    run = worked(asking)
    entry = run.journal.get(path="ask")
    assert entry.attempts == 1
    assert whats(row_and_bars(boss, run, entry.seq)[1]) == ["wait", "failed", "succeeded"]


def test_where_the_attempts_of_a_poll_were_nobody_knows_without_the_log(boss: Client, begun: datetime) -> None:
    run = make_run("running", created_at=begun, started_at=begun)
    wake_at = timezone.now() + timedelta(seconds=50)
    make_entry(run, "over", 1, kind="poll", attempts=2, started_at=begun)
    make_entry(run, "on", 2, kind="poll", status="retrying", started_at=begun, finished_at=None, wake_at=wake_at)
    assert whats(row_and_bars(boss, run, 1)[1]) == ["wait", "succeeded"]
    assert whats(row_and_bars(boss, run, 2)[1]) == ["wait", "planned"]
