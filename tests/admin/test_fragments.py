"""Fragments: sent when they have changed, and told when they will not change any more."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.http import HttpResponse
from django.template import engines
from django.test import Client, RequestFactory
from django.utils import timezone

from django_durable.admin import fragments
from django_durable.admin.fragments import ago, fragment
from tests.admin.conftest import Person
from tests.admin.world import make_run, make_worker

OVERVIEW = "/admin/django_durable/run/overview/fragment/"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Asks for a fragment of one line of text."""

    def render(template: str, context: dict[str, Any], request: Any) -> str:
        return str(engines["django"].from_string(template).render(context, request))

    monkeypatch.setattr(fragments, "render_to_string", render)

    def ask(template: str = "{{ text }}", etag: str = "", *, text: str = "", is_done: bool = False) -> HttpResponse:
        request = RequestFactory().get("/", headers={"if-none-match": etag} if etag else None)
        return fragment(request, template, {"text": text}, is_done=is_done)

    return ask


def test_the_first_time_it_is_sent(ask: Any) -> None:
    response = ask(text="<5 runs>")
    assert (response.status_code, response.content) == (200, b"&lt;5 runs&gt;")
    assert response["Cache-Control"] == "private, no-cache"
    assert not response.has_header("X-Durable-Done")


def test_it_is_sent_again_when_it_has_changed(ask: Any) -> None:
    etag = ask(text="5 runs")["ETag"]
    same = ask(text="5 runs", etag=etag)
    assert (same.status_code, same.content, same["ETag"]) == (304, b"", etag)
    assert same["Cache-Control"] == "private, no-cache"
    other = ask(text="6 runs", etag=etag)
    assert (other.status_code, other.content) == (200, b"6 runs")
    assert other["ETag"] != etag


def test_a_middleware_that_compresses_makes_the_etag_weak(ask: Any) -> None:
    etag = ask(text="5 runs")["ETag"]
    assert ask(text="5 runs", etag=f"W/{etag}").status_code == 304


def test_the_token_of_a_form_is_no_change(ask: Any) -> None:
    form = "<form>{% csrf_token %}{{ text }}</form>"
    first, second = ask(form, text="5"), ask(form, text="5")
    assert b"csrfmiddlewaretoken" in first.content
    assert first.content != second.content
    assert first["ETag"] == second["ETag"] != ask(form, text="6")["ETag"]


@pytest.mark.parametrize("etag", ["", "same"])
def test_what_is_done_says_so(ask: Any, etag: str) -> None:
    etag = ask(text="over")["ETag"] if etag else ""
    response = ask(text="over", etag=etag, is_done=True)
    assert (response.status_code, response["X-Durable-Done"]) == (304 if etag else 200, "1")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "under 15 s"), (0, "under 15 s"), (14.9, "under 15 s"), (15, "under 30 s"), (59, "under 60 s"),
     (60, "1 min"), (3_599, "59 min"), (7_300, "2 h"), (200_000, "2 d")],
)  # fmt: skip
def test_an_age_is_told_in_steps(seconds: float, text: str) -> None:
    assert ago(NOON - timedelta(seconds=seconds), NOON) == text


def test_the_overview_stays_as_it_is_while_nothing_happens(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    now, hour = timezone.now(), timedelta(hours=1)
    # In the time to come: the age of a heartbeat stays what it is told as, however long it takes to ask.
    worker, run = make_worker(heartbeat_at=now + hour), make_run(queued_at=now - 3 * hour)
    etag = boss.get(OVERVIEW)["ETag"]
    # A heartbeat is no news, nor are some seconds more of waiting.
    worker.heartbeat_at = now + 2 * hour
    worker.save()
    assert boss.get(OVERVIEW, headers={"if-none-match": etag}).status_code == 304
    run.delete()
    assert boss.get(OVERVIEW, headers={"if-none-match": etag}).status_code == 200


def test_who_may_not_look_is_told_so(person: Person) -> None:
    assert person("view_worker").get(OVERVIEW).status_code == 403
    assert Client().get(OVERVIEW).status_code == 302
