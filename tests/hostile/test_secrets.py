"""A canary that goes through a run everywhere a value can go, and is found in the columns of values only."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psutil
import pytest
from django.apps import apps
from django.conf import settings as django_settings
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import LogEntry
from django.test import Client, override_settings
from django.urls import reverse

from django_durable import get_run
from django_durable.client import schedules
from django_durable.client.handle import RunHandle
from django_durable.core.ids import uuid7
from django_durable.exceptions import InvalidInput
from django_durable.models import JournalEntry, Schedule
from django_durable.queues.ready import Ready
from tests.admin.every import addresses
from tests.admin.pages import list_url, run_url
from tests.app.workflows import doubling
from tests.hostile.app.secrets import SECRET, betraying, customer_of, paid, paying, paying_again
from tests.hostile.handing_over import YEARLY, ByCode, ByForms, Hands
from tests.hostile.processes import hostile_worker
from tests.processes import Worker, wait_until
from tests.servers import Servers

pytestmark = pytest.mark.django_db(transaction=True)

OF_VALUES = {
    "Payload.data",
    "JournalEntry.value",
    "JournalEntry.error",
    "Event.payload",
    "Event.response",
    "LogLine.message",
    "Schedule.input",
}
REDACT = "tests.hostile.app.secrets.redact"
INPUT = paid.signature.write(paid.name, (), {"card": SECRET})
WRONG: dict[str, Callable[[str], str]] = {
    "of another name": lambda text: text.replace("card", "dear"),
    "damaged": lambda text: text[:-1],
}
"""What schedules cannot be fired with."""


def worked(hands: Hands, caplog: pytest.LogCaptureFixture, *, is_declined: bool) -> tuple[list[RunHandle[Any]], Worker]:
    """The run, and one that was tried again, both over; and the worker that has done them and is at work still."""
    caplog.set_level(logging.DEBUG)
    wrong = [a_schedule(name, change(INPUT)) for name, change in WRONG.items()]
    worker = hostile_worker("--verbosity", "3", REDACT=REDACT)
    run = hands.start(paying, card=SECRET, is_declined=is_declined)
    again = hands.start(paying_again, card=SECRET)
    wait_until(lambda: run.refresh().status == "waiting", message="the run to wait")
    hands.send(run, "card", {"card": SECRET})
    scheduled(hands, wrong)
    ended = "failed" if is_declined else "succeeded"
    wait_until(lambda: run.refresh().status == ended, message=f"the run to have {ended}")
    wait_until(lambda: again.refresh().status == "succeeded", message="the second attempt to have succeeded")
    assert (again.attempt, again.run.limit_key) == (2, f"hostile.paying_again:{customer_of(SECRET)}")
    assert [record.name for record in caplog.records if tells(record)] == []
    assert "django_durable.client" in {record.name for record in caplog.records}
    return [run, again], worker


def tells(record: logging.LogRecord) -> bool:
    """Whether the secret is in it: in its text, its traceback, or beside them for a formatter that writes all."""
    return SECRET in logging.Formatter().format(record) or SECRET in repr(vars(record))


def a_schedule(name: str, text: str) -> Schedule:
    return Schedule.objects.create(workflow=paid.name, name=name, expression=YEARLY, input=text)


def scheduled(hands: Hands, wrong: Sequence[Schedule]) -> None:
    """Make, change, fire and remove schedules that know the secret. ``wrong`` have a problem with what they know."""
    row = hands.schedule(paid, {"card": SECRET}, {"card": f"{SECRET} again"})
    schedules.remove(a_schedule("removed", INPUT), reason="plain", actor="ann")
    fired = get_run(schedules.fire_now(row, reason="plain", actor="ann"))
    wait_until(lambda: fired.refresh().status == "succeeded", message="the scheduled run to have succeeded")
    told = Schedule.objects.filter(pk__in=[one.pk for one in wrong]).exclude(problem="")
    wait_until(lambda: told.count() == len(wrong), message="the problems to be told")


def columns_with(text: str) -> set[str]:
    """Of all tables, ours, Django's and the project's, those of whose values one holds the text."""
    return {
        f"{model.__name__}.{field}"
        for model in apps.get_models()
        for row in model._default_manager.values()
        for field, value in row.items()
        if text in str(value)
    }


@contextmanager
def heard(servers: Servers) -> Iterator[bytearray]:
    """What Redis is sent, by whomever; where there is none, nothing."""
    said = bytearray()
    if servers.redis is None:
        yield said
        return
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(servers.redis.socket))
        line.sendall(b"MONITOR\r\n")
        line.settimeout(60)
        assert line.recv(5) == b"+OK\r\n"
        yield said
        with servers.redis.client() as client:
            client.echo("the last word")
        while b"the last word" not in said:
            said += line.recv(1 << 16)


@pytest.mark.usefixtures("possible_tables")
@pytest.mark.contract
def test_a_secret_stays_in_the_columns_of_values(servers: Servers, caplog: pytest.LogCaptureFixture) -> None:
    with heard(servers) as said:
        (run, _), worker = worked(ByCode(), caplog, is_declined=False)
        processes = [psutil.Process(worker.pid), *psutil.Process(worker.pid).children(recursive=True)]
        argv = [" ".join(process.cmdline()) for process in processes]
    assert columns_with(SECRET) == OF_VALUES - {"JournalEntry.error"}
    assert str(run.id) in worker.log
    assert SECRET not in worker.log
    assert len(argv) > 1
    assert [line for line in argv if SECRET in line] == []
    if servers.redis is not None:
        assert str(run.id).encode() in said
    assert SECRET.encode() not in said
    assert worker.stop() == 0


@pytest.mark.usefixtures("possible_tables")
@pytest.mark.contract
def test_a_secret_in_an_error_stays_in_the_columns_of_values(caplog: pytest.LogCaptureFixture) -> None:
    (run, _), worker = worked(ByCode(), caplog, is_declined=True)
    assert columns_with(SECRET) == OF_VALUES
    assert worker.stop() == 0
    assert "retrying run=" in worker.log and "ValueError" in worker.log
    assert [line for line in worker.log.splitlines() if SECRET in line] == []
    assert run.refresh().status == "failed"


def test_a_log_that_tells_a_secret_is_seen() -> None:
    """Of the worker and at the verbosity of the tests above, and whether or not values are redacted."""
    worker = hostile_worker("--verbosity", "3", REDACT=REDACT)
    run = betraying.enqueue(card=SECRET)
    wait_until(lambda: run.refresh().status == "succeeded", message="the run to have succeeded")
    assert [line for line in worker.log.splitlines() if SECRET in line] == [
        f"DEBUG|django_durable.runs|betrayed {SECRET}"
    ]
    assert worker.stop() == 0


WATCHED = {"run_fragment", "run_json"}
"""The addresses of a project's own pages."""
HISTORY = {f"{what}: plain" for what in ("Start by hand", "Send event card", "Create", "Change")}


@pytest.mark.usefixtures("possible_tables")
@pytest.mark.urls("tests.views.urls")
def test_no_page_and_no_export_shows_what_is_redacted(
    admin_client: Client, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.DURABLE = {**settings.DURABLE, "ADMIN_START": True}
    runs, worker = worked(ByForms(admin_client), caplog, is_declined=True)
    assert worker.stop() == 0
    assert columns_with(SECRET) == OF_VALUES
    assert set(LogEntry.objects.values_list("change_message", flat=True)) >= HISTORY
    # What Django itself says of two hundred pages takes longer than they do.
    caplog.set_level("CRITICAL", "django")
    open_pages = pages_of(admin_client, runs)
    shown = {"run_change", "whole input", "whole retry", "export"}
    telling = {name for name, page in open_pages.items() if SECRET in page}
    assert telling >= shown
    # Of progress the numbers alone are for who watches, whatever is redacted.
    assert telling.isdisjoint(WATCHED)
    assert "50 %" in open_pages["run_fragment"] and '"percent": 50' in open_pages["run_json"]
    settings.DURABLE = {**settings.DURABLE, "REDACT": REDACT}
    pages = pages_of(admin_client, runs)
    assert len(pages) > 20
    assert [name for name, page in pages.items() if SECRET in page] == []
    assert "failed" in pages["run_fragment"] and '"status": "failed"' in pages["run_json"]
    assert [record.name for record in caplog.records if tells(record)] == []


def pages_of(client: Client, runs: Sequence[RunHandle[Any]]) -> dict[str, str]:
    """Everything about these runs that the site has, the whole values and the export among it. What there is of each
    run is one text for all of them."""
    found = {"list": list_url(), "search": list_url("?q=plain"), "of the run": list_url("?workflow=hostile.paying")}
    for name, route in addresses().items():
        if "<" not in route:
            found[name] = f"/{route}"
        elif name in ("schedule_change", "schedule_edit"):
            for row in Schedule.objects.all():
                found[f"{name} {row.name}"] = reverse(f"admin:django_durable_{name}", args=[row.pk])
    pages = {name: text_of_answer(client.get(url, follow=True)) for name, url in found.items()}
    for run in runs:
        for name, url in addresses_of(run).items():
            pages[name] = pages.get(name, "") + text_of_answer(client.get(url, follow=True))
    ids = [str(run.id) for run in runs]
    picked = {"action": "export_selected", ACTION_CHECKBOX_NAME: ids, "confirmed": "1", "reason": "why"}
    pages["export"] = text_of_answer(client.post(list_url(), {**picked, "ids": ",".join(ids)}))
    return pages


def addresses_of(run: RunHandle[Any]) -> dict[str, str]:
    page, found = run_url(run.run), {}
    for name, route in addresses().items():
        if "<" in route and name.startswith("run_"):
            found[name] = page.replace("/change/", f"/{name.removeprefix('run_')}/")
    for name in WATCHED:
        found[name] = reverse(f"django_durable:{name}", args=[run.id])
    for kind in ("input", "output", "error", "progress", "notes", "retry"):
        found[f"whole {kind}"] = page.replace("/change/", f"/value/?of={kind}")
    for path in JournalEntry.objects.filter(run_id=run.id).values_list("path", flat=True):
        for what in ("value", "failure"):
            found[f"{what} of {path}"] = page.replace("/change/", f"/value/?of={what}&path={path}")
    for event in run.run.events.all():
        found[f"event {event.pk}"] = page.replace("/change/", f"/value/?of=event&id={event.pk}")
    return found


def text_of_answer(response: Any) -> str:
    return (b"".join(response.streaming_content) if response.streaming else response.content).decode()


# --- what is said when something is refused --------------------------------------------------


def test_an_input_that_does_not_fit_is_not_repeated() -> None:
    with pytest.raises(InvalidInput) as caught:
        doubling.enqueue(number=SECRET)  # type: ignore[arg-type]
    assert "number" in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("location", ["redis://user:{}@127.0.0.1:1/0", "redis://:{}@localhost:1/0?db=3"])
def test_a_redis_that_does_not_answer_is_told_of_without_its_password(
    location: str, caplog: pytest.LogCaptureFixture
) -> None:
    redis = {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": location.format(SECRET)}
    caplog.set_level(logging.DEBUG)
    with override_settings(CACHES={**django_settings.CACHES, "away": redis}):
        from django_durable.queues.redis import RedisQueue

        queue = RedisQueue("away", "hostile")
        queue.push([Ready(uuid7(), "default", 0)])
        queue.close()
    assert "redis is out of reach" in caplog.text
    assert SECRET not in caplog.text
