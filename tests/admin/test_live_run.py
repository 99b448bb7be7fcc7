"""The page of a run that goes on: it refreshes itself, as seldom as is enough."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from django_durable.admin.waterfall import settled
from django_durable.core import clock
from django_durable.models import Run
from django_durable.testing import run_until_idle
from tests.admin.moments import at
from tests.admin.pages import live_url, run_url, text_of
from tests.admin.world import make_entry, make_run
from tests.app.workflows import sleepy


def test_the_page_of_a_run_that_goes_on_refreshes_itself(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    moment = timezone.now()
    monkeypatch.setattr("django_durable.admin.run_page.settled", lambda run, now: moment)
    handle = sleepy.enqueue(seconds=3600)
    run_until_idle()
    page = boss.get(run_url(handle.run) + "?from=1").content.decode()
    assert f'data-durable-refresh="{live_url(handle.run)}?from=1" data-durable-every="15"' in page
    first = boss.get(live_url(handle.run))
    assert "It sleeps at" in text_of(first) and "<html" not in first.content.decode()
    assert "csrfmiddlewaretoken" not in first.content.decode()
    again = boss.get(live_url(handle.run), headers={"if-none-match": first["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    handle.cancel()
    run_until_idle()
    last = boss.get(live_url(handle.run))
    assert last["X-Durable-Done"] == "1" and "cancelled" in text_of(last)
    assert "data-durable-refresh" not in boss.get(run_url(handle.run)).content.decode()


@pytest.mark.parametrize(("count", "every"), [(2, "3"), (3, "60")])
def test_a_long_journal_is_seldom_read_anew(boss: Client, settings: Any, count: int, every: str) -> None:
    settings.DURABLE = {**settings.DURABLE, "JOURNAL_WARN_ENTRIES": 2}
    run = make_run("running")
    for seq in range(count):
        make_entry(run, f"step {seq}", seq)
    assert f'data-durable-every="{every}"' in boss.get(run_url(run)).content.decode()


def test_the_picture_of_a_run_stands_still_for_a_while() -> None:
    for age, step in ((10, 1), (90, 5), (900, 60), (3_000, 300), (86_400 * 90, 3_600)):
        run = Run(created_at=at(0), started_at=at(0))
        moments = {settled(run, at(age + part)) for part in (0.1, step / 2, step - 0.1)}
        assert len(moments) <= 2
        assert all(moment.timestamp() % step == 0 for moment in moments)
        assert all(timedelta(0) <= at(age + step) - moment <= timedelta(seconds=2 * step) for moment in moments)


def test_a_running_run_is_not_sent_again_each_time_that_it_is_asked_for(
    boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = timezone.now().replace(minute=30, second=0, microsecond=0)
    start = moment - timedelta(seconds=40)
    run = make_run("running", created_at=start, started_at=start, lease_expires_at=moment + timedelta(hours=9))
    answers = []
    for later in (0, 3, 30):
        monkeypatch.setattr(clock, "utcnow", lambda later=later: moment + timedelta(seconds=later))
        known = {"if-none-match": answers[0]["ETag"]} if answers else {}
        answers.append(boss.get(live_url(run), headers=known))
    assert [answer.status_code for answer in answers] == [200, 304, 200]


def test_a_run_that_is_gone_is_asked_for_no_more(boss: Client) -> None:
    run = make_run("waiting")
    url = live_url(run)
    assert boss.post(url).status_code == 405
    Run.objects.all().delete()
    assert boss.get(url).status_code == 404
