"""The log on a run's page."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from django_durable import Context, Retry, durable_workflow
from django_durable.admin.run_log import LINES_SHOWN
from django_durable.models import Run
from django_durable.testing import run_until_idle
from tests.admin.conftest import LOOK, Person
from tests.admin.pages import judge, run_url, text_of
from tests.admin.world import make_line, make_run

SECTION = 'id="durable-log"'


@durable_workflow(name="run_log.talking", retry=Retry(max_attempts=1))
def talking(ctx: Context) -> None:
    ctx.log.warning("order %d has no address", 42)
    ctx.join("both", {"left": lambda ctx: ctx.log.error("nobody is\nat home")})


def page(client: Client, run: Run) -> str:
    response = client.get(run_url(run))
    assert judge(response) == []
    return response.content.decode()


def live(client: Client, run: Run) -> str:
    return client.get(reverse("admin:django_durable_run_live", args=[run.pk])).content.decode()


def test_what_a_run_has_said_stands_on_its_page(boss: Client) -> None:
    handle = talking.enqueue()
    run_until_idle()
    text = text_of(boss.get(run_url(handle.run)))
    for part in ("Log", "warning", "order 42 has no address", "error", "nobody is", "at home", "both/left"):
        assert part in text
    # The newest first.
    assert text.index("at home") < text.index("order 42")


def test_a_run_that_has_said_nothing_has_no_such_section(boss: Client) -> None:
    assert SECTION not in page(boss, make_run("running"))
    # What was never claimed was not asked for it.
    unclaimed = make_run("queued")
    with CaptureQueriesContext(connection) as queries:
        page(boss, unclaimed)
    assert [query["sql"] for query in queries if "logline" in query["sql"]] == []


def test_only_those_who_may_view_payloads_see_it(person: Person) -> None:
    run = make_run("running")
    make_line(run, "the secret")
    looks, sees = person(*LOOK), person(*LOOK, "view_payload", name="bob")
    for fetch in (page, live):
        assert "the secret" not in fetch(looks, run) and SECTION not in fetch(looks, run)
        assert "the secret" in fetch(sees, run)


def test_the_page_that_refreshes_itself_follows_it(boss: Client) -> None:
    run = make_run("running")
    make_line(run, "one")
    assert "two" not in page(boss, run)
    make_line(run, "two", 2)
    fragment = live(boss, run)
    assert fragment.index("<bdi>two</bdi>") < fragment.index("<bdi>one</bdi>")


def test_a_part_of_the_timeline_is_without_it(boss: Client) -> None:
    run = make_run("running")
    make_line(run, "one")
    assert SECTION not in boss.get(f"{run_url(run)}?from=1").content.decode()


def test_it_is_bounded(boss: Client) -> None:
    run = make_run("running")
    for number in range(LINES_SHOWN):
        make_line(run, f"line {number}.", number + 1)
    assert "these are the latest" not in text_of(boss.get(run_url(run)))
    make_line(run, "the last", LINES_SHOWN + 1)
    with CaptureQueriesContext(connection) as queries:
        text = text_of(boss.get(run_url(run)))
    assert len(queries) <= 12, [query["sql"] for query in queries]
    assert "the last" in text and "line 1." in text and "line 0." not in text
    assert "There are more; these are the latest." in text


@pytest.mark.parametrize(
    ("level", "kind", "word"),
    [
        (logging.DEBUG, "debug", "debug"),
        (logging.INFO, "info", "info"),
        (logging.WARNING, "warning", "warning"),
        (logging.ERROR, "error", "error"),
        (logging.CRITICAL, "critical", "critical"),
        (25, "info", "Level 25"),
        (0, "debug", "NOTSET"),
        (32_767, "critical", "Level 32767"),
    ],
)
def test_a_level_is_a_word(boss: Client, level: int, kind: str, word: str) -> None:
    run = make_run("running")
    make_line(run, "one", level=level)
    assert f'<span class="durable-pill durable-pill-{kind}">{word}</span>' in page(boss, run)


# --- redaction -------------------------------------------------------------------------------

asked: list[tuple[Any, str, Any]] = []


def redact(run: Run, kind: str, value: Any) -> Any:
    if kind != "log":
        return value
    asked.append((run.pk, kind, value))
    if "secret" in value:
        raise ValueError(value)
    return value.replace("card 4711", "•••") if "card" in value else 42


told_of: list[tuple[str, Any]] = []


def hide(run: Run, kind: str, value: Any) -> Any:
    told_of.append((kind, value))
    return {**value, "message": "•••", "traceback": ""} if kind == "error" else value


def hide_all(run: Run, kind: str, value: Any) -> Any:
    return "nothing" if kind == "error" else value


def fail(run: Run, kind: str, value: Any) -> Any:
    raise ValueError(value)


def refuse() -> None:
    raise ValueError("card 4711")


@durable_workflow(name="run_log.refused", retry=Retry(max_attempts=1))
def refused(ctx: Context) -> None:
    ctx.log.warning("attempt 1 failed, the next one comes at once: E: said by the run")
    ctx.step("charge", refuse, retry=Retry(max_attempts=2, initial=0))


@pytest.mark.parametrize(
    ("function", "shown"),
    [("hide", "at once: ValueError: •••"), ("hide_all", "at once: nothing"), ("fail", "what is to redact it failed")],
)
def test_what_an_attempt_raised_is_redacted_as_an_error(boss: Client, settings: Any, function: str, shown: str) -> None:
    run = refused.enqueue()
    run_until_idle()
    raised = "attempt 1 failed, the next one comes at once: ValueError: card 4711"
    assert raised in text_of(boss.get(run_url(run.run)))
    settings.DURABLE = {**settings.DURABLE, "REDACT": f"{__name__}.{function}"}
    told_of.clear()
    text = text_of(boss.get(run_url(run.run)))
    assert shown in text and "card 4711" not in text
    if function == "hide":
        assert ("error", {"type": "ValueError", "message": "card 4711", "traceback": ""}) in told_of
        assert [value for kind, value in told_of if kind == "log"] == [
            "attempt 1 failed, the next one comes at once: E: said by the run"
        ]


def test_each_line_is_redacted_by_itself(boss: Client, settings: Any) -> None:
    settings.DURABLE = {**settings.DURABLE, "REDACT": f"{__name__}.redact"}
    run = make_run("running")
    for number, message in enumerate(("paid by card 4711", "the secret", "a number"), 1):
        make_line(run, message, number)
    asked.clear()
    text = text_of(boss.get(run_url(run)))
    assert sorted(asked, key=str) == sorted(
        [(run.pk, "log", message) for message in ("paid by card 4711", "the secret", "a number")], key=str
    )
    assert "paid by •••" in text and "42" in text
    for hidden in ("4711", "the secret", "a number"):
        assert hidden not in text
    assert "It is not shown: what is to redact it failed." in text
