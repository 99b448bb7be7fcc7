"""A run as a file, from its page: the list's export of this one run."""

from __future__ import annotations

import json
import re
from io import StringIO
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.core.management import call_command
from django.test import Client

from django_durable.core.payloads.codec import encode
from django_durable.models import Run
from django_durable.testing import run_until_idle
from tests.admin.conftest import Person
from tests.admin.pages import live_url, run_url
from tests.admin.test_access import VIEWERS
from tests.admin.world import make_entry, make_run
from tests.app.workflows import doubling

BUTTON = '<button type="submit" form="durable-export"'
FORM = re.compile(r'<form id="durable-export" method="post" action="([^"]*)">(.*?)</form>', re.DOTALL)


def download(client: Client, run: Run) -> Any:
    """What the browser gets that sends the form."""
    page = client.get(run_url(run)).content.decode()
    assert BUTTON in page
    [(url, fields)] = FORM.findall(page)
    return client.post(url, dict(re.findall(r'name="([^"]*)" value="([^"]*)"', fields)))


def lines_of(response: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in b"".join(response.streaming_content).decode().splitlines()]


def test_it_is_what_the_command_writes(boss: Client) -> None:
    done, out = doubling.enqueue(number=21), StringIO()
    make_run("failed")
    run_until_idle()
    response = download(boss, done.run)
    assert response["Content-Disposition"] == f'attachment; filename="{done.id}.jsonl"'
    call_command("durable_export", str(done.id), "--lines", stdout=out)
    assert lines_of(response) == [json.loads(line) for line in out.getvalue().splitlines()]


def test_it_is_offered_while_the_run_goes_on(boss: Client) -> None:
    run = make_run("running")
    assert BUTTON in boss.get(live_url(run)).content.decode()
    assert [one["run"]["status"] for one in lines_of(download(boss, run))[:-1]] == ["running"]


@pytest.mark.parametrize(("have", "sees"), VIEWERS)
def test_the_values_are_in_it_for_those_who_may_view_them(person: Person, have: frozenset[str], sees: bool) -> None:
    run = make_run("failed")
    run.payloads.create(kind="input", data=encode({"number": "canary-input"}))
    make_entry(run, "step", value='"canary-value"')
    text = json.dumps(lines_of(download(person(*have), run)))
    assert str(run.pk) in text
    assert ("canary-input" in text) == ("canary-value" in text) == sees


def redact(run: Run, kind: str, value: Any) -> Any:
    return {**value, "card": "•••"} if kind == "input" else value


def test_it_is_redacted(boss: Client, settings: Any) -> None:
    settings.DURABLE = {**settings.DURABLE, "REDACT": f"{__name__}.redact"}
    run = make_run("failed")
    run.payloads.create(kind="input", data=encode({"card": "canary", "order": 4}))
    document, _end = lines_of(download(boss, run))
    assert json.loads(document["payloads"]["input"]) == {"card": "•••", "order": 4}


def test_it_is_written_down(boss: Client) -> None:
    run = make_run("failed")
    download(boss, run)
    entry = LogEntry.objects.get()
    assert (entry.object_id, entry.change_message, entry.user.get_username()) == (str(run.pk), "Export", "ann")
