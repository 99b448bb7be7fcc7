"""Names, errors and reasons in a project's own log, whose formatter writes what it is given: a record is one line.

The log of a whole worker is looked through in `test_worker.py`.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from django_durable import Context, Cron, Retry, durable_workflow
from django_durable.client import schedules
from django_durable.testing import run_until_idle
from tests.admin.every import make_rows
from tests.schedules.making import HOUR, advance, code_of, fire_loop, make_schedule, make_workflow, move_to
from tests.schedules.noon import NOON, just_before_noon

FORGED = "FORGED"


def unfit(text: str) -> list[str]:
    """Characters that a log line of ours is not to have."""
    return sorted({repr(letter) for letter in text if not letter.isprintable() and letter != "\n"})


@pytest.mark.parametrize("letter", ["\r", "\x1b", "\x9b", "\u2028", "\u202e", "\x00"], ids=ascii)
def test_a_letter_that_breaks_a_line_is_seen(letter: str) -> None:
    assert unfit("well\nand well") == []
    assert unfit(f"well{letter}\nand well") == [repr(letter)]


def test_a_record_of_the_engine_that_is_two_lines_is_seen(caplog: pytest.LogCaptureFixture) -> None:
    for name, text in (("django_durable.client", "well"), ("django_durable.client", LINE), ("django.request", LINE)):
        logging.getLogger(name).error(text)
    [(name, found)] = wrong_records(caplog)
    assert (name, set(found)) == ("django_durable.client", set(map(repr, "\r\x00\x1b\x9b\u2028")))


@durable_workflow(name="hostile.undoing", step_retry=Retry(max_attempts=1), retry=Retry(max_attempts=1))
def undoing(ctx: Context, text: str) -> None:
    def refuse(_value: object = None) -> None:
        raise ValueError(text)

    ctx.step("a\u202eb\u2028c\x9b", str, compensate=refuse)
    refuse()


LINE = f"well\r\n2026-01-01 ERROR {FORGED}\x1b[2K\x9b31m\u2028"


@pytest.mark.usefixtures("possible_tables")
@pytest.mark.django_db
def test_no_record_of_the_engine_holds_what_breaks_a_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "django_durable")
    run = undoing.enqueue(LINE)
    run_until_idle()
    assert run.status == "failed"
    assert "compensation of" in caplog.text
    assert wrong_records(caplog) == []


@pytest.mark.django_db
def test_a_reason_that_somebody_typed_forges_no_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "django_durable")
    schedules.disable(row := make_schedule(), reason=LINE, actor=LINE)
    schedules.remove(row, reason=LINE, actor=LINE)
    assert "enabled=False" in caplog.text and "removed by=" in caplog.text
    assert wrong_records(caplog) == []


@pytest.mark.django_db
def test_nor_does_one_that_was_typed_into_a_form(admin_client: Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    rows = make_rows()
    admin_client.post(rows.url("schedule_disable"), {"confirmed": "1", "reason": LINE})
    admin_client.post(rows.url("run_cancel"), {"confirmed": "1", "reason": LINE})
    admin_client.get(reverse("admin:django_durable_run_changelist"), {"q": LINE})
    rows.schedule.refresh_from_db()
    assert not rows.schedule.enabled
    assert wrong_records(caplog) == []


@pytest.mark.usefixtures("possible_tables")
@pytest.mark.django_db
def test_nor_does_a_schedule_that_cannot_fire(caplog: pytest.LogCaptureFixture) -> None:
    """Its problem is an error's text, or quotes what was given; its name was typed."""
    caplog.set_level(logging.DEBUG, "django_durable")
    fail_to_fire(LINE)
    assert "stopped: " in caplog.text and FORGED in caplog.text
    assert wrong_records(caplog) == []


@pytest.mark.usefixtures("possible_tables")
@pytest.mark.django_db
def test_what_a_schedule_cannot_fire_for_is_not_told_where_values_are_redacted(
    caplog: pytest.LogCaptureFixture, settings: Any
) -> None:
    settings.DURABLE = {**settings.DURABLE, "REDACT": "tests.hostile.app.secrets.redact"}
    caplog.set_level(logging.DEBUG, "django_durable")
    fail_to_fire("hourly", FORGED)
    assert "stopped" in caplog.text and FORGED not in caplog.text


@pytest.mark.django_db
def test_nor_what_one_in_code_cannot_fire_for(caplog: pytest.LogCaptureFixture, settings: Any) -> None:
    class Raises(dict[str, Any]):
        def __bool__(self) -> bool:
            raise ValueError(FORGED)

    caplog.set_level(logging.DEBUG, "django_durable")
    code_of(make_workflow(Cron("@daily", name="plain", input=Raises()))).tick()
    assert "cannot fire: ValueError" in caplog.text and FORGED in caplog.text
    caplog.clear()
    settings.DURABLE = {**settings.DURABLE, "REDACT": "tests.hostile.app.secrets.redact"}
    code_of(make_workflow(Cron("@daily", name="redacted", input=Raises()))).tick()
    assert "schedule=redacted" in caplog.text and FORGED not in caplog.text


def fail_to_fire(name: str, told: str = LINE) -> None:
    """A schedule of this name comes due, and its key refuses with what is ``told``."""

    def refuse(**_input: Any) -> str:
        raise ValueError(told)

    just_before_noon()
    make_schedule(workflow="hostile.keyed", name=name, next_fire_at=NOON)
    loop = fire_loop(make_workflow(name="hostile.keyed", max_concurrency=1, concurrency_key=refuse))
    move_to(NOON + timedelta(seconds=1))
    loop.tick()


@pytest.mark.usefixtures("possible_tables")
@pytest.mark.django_db
def test_nor_does_one_that_fires(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "django_durable")
    just_before_noon()
    for overlap in ("skip", "allow"):
        make_schedule(name=f"{overlap} {LINE}", overlap=overlap, next_fire_at=NOON)
    loop = fire_loop()
    for hours in range(2):
        move_to(NOON + hours * HOUR + timedelta(seconds=1))
        loop.tick()
    assert "fired schedule=" in caplog.text and "skipped: overlap schedule=" in caplog.text
    assert wrong_records(caplog) == []


@pytest.mark.usefixtures("possible_tables")
@pytest.mark.django_db
def test_nor_does_one_in_code(caplog: pytest.LogCaptureFixture) -> None:
    """It is declared, changed, renamed and removed."""
    caplog.set_level(logging.DEBUG, "django_durable")
    odd = "a\u202eb\u2028c\x9b"
    code_of(make_workflow(LINE, Cron("@daily", name=odd), name=odd)).tick()
    code_of(make_workflow(Cron("@hourly", name=odd), name=odd)).tick()
    advance(timedelta(days=1))
    code_of(make_workflow(Cron("@hourly", name=odd), name=f"{odd}2", aliases=[odd])).tick()
    advance(timedelta(days=1))
    code_of(make_workflow()).tick()
    for told in ("cannot fire", "follows the code", "is now", "is in the code no more"):
        assert told in caplog.text
    assert wrong_records(caplog) == []


ODD = "hostile.a\u202eb\u2028c\x9b"
attempts: list[int] = []


@durable_workflow(name=ODD)
def changing(ctx: Context) -> None:
    """As if its code had changed while it slept."""
    attempts.append(len(attempts))
    if len(attempts) == 1:
        ctx.step("a\u202eb\u2028c\x9b", str)
    ctx.sleep("nap", 1)


@pytest.mark.usefixtures("possible_tables")
@pytest.mark.django_db
def test_nor_does_a_workflow_whose_code_has_changed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "django_durable.executor")
    attempts.clear()
    changing.enqueue()
    run_until_idle(skip_waits=True)
    assert "diverged run=" in caplog.text
    assert wrong_records(caplog) == []


def wrong_records(caplog: pytest.LogCaptureFixture) -> list[Any]:
    ours = [record for record in caplog.records if record.name.startswith("django_durable")]
    return [(record.name, found) for record in ours if (found := unfit(record.getMessage().replace("\n", "\x00")))]
