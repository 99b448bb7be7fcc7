"""``durable_export``: what is stored of runs, as documents whose shape stays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_durable import get_run
from django_durable.admin import exports
from django_durable.client.exporting import END, FORMAT, export_runs
from django_durable.client.recorded import ExportUnreadable, read
from django_durable.models import JournalEntry, Payload, Run
from django_durable.testing import run_until_idle
from tests.admin.pages import list_url
from tests.app.workflows import doubling, listening, parent
from tests.commands.conftest import Call
from tests.commands.rows import a_run, with_belongings

pytestmark = [pytest.mark.django_db, pytest.mark.contract]


def test_a_run_with_all_that_belongs_to_it(call: Call) -> None:
    handle = doubling.using(tags=["red", "blue"]).enqueue(21)
    run_until_idle()
    run = handle.refresh().run
    [document] = call("durable_export", run.pk).data
    assert (document["format"], document["version"]) == ("django_durable.run", 1)
    row = document["run"]
    assert (row["id"], row["workflow"], row["status"], row["phase"]) == (
        str(run.pk),
        "app.doubling",
        "succeeded",
        "forward",
    )
    assert datetime.fromisoformat(row["finished_at"]) == run.finished_at
    assert document["tags"] == ["blue", "red"]
    assert document["payloads"] == {"input": '{"number":21}', "output": "42"}
    [entry] = document["journal"]
    assert {name: entry[name] for name in ("path", "seq", "kind", "status", "attempts", "value", "error", "undo")} == {
        "path": "double",
        "seq": 1,
        "kind": "step",
        "status": "succeeded",
        "attempts": 1,
        "value": "42",
        "error": None,
        "undo": False,
    }
    assert (document["events"], document["children"]) == ([], [])


def test_the_shape_of_version_1(call: Call) -> None:
    """Others read these: a field that goes, or means something else, needs another version."""
    run = with_belongings(a_run())
    a_run(parent=run, parent_path="child")
    [document] = call("durable_export", run.pk).data
    assert document.keys() == {
        *("format", "version", "run", "payloads", "journal", "tags", "events", "log", "children"),
    }
    assert document["run"].keys() == {
        *("id", "workflow", "queue", "priority", "status", "phase", "attempt", "max_attempts", "claims", "crashes"),
        *("block_reason", "fingerprint", "waiting_on", "created_at", "queued_at", "started_at", "finished_at"),
        *("wake_at", "deadline_at", "timeout", "cancel_requested_at", "parent_id", "parent_path", "root_id"),
        "detached",
    }
    assert document["journal"][0].keys() == {
        *("path", "seq", "kind", "status", "attempts", "value", "error", "started_at", "finished_at", "wake_at"),
        *("awaits", "undo"),
    }
    assert document["events"][0].keys() == {
        *("id", "name", "payload", "idempotency_key", "sent_at", "consumed_at", "consumed_by"),
    }
    assert document["log"][0].keys() == {"at", "level", "scope", "message", "attempt"}
    assert document["children"][0].keys() == {"id", "workflow", "status", "parent_path", "detached"}


def test_the_right_to_write_is_no_part_of_it(call: Call) -> None:
    token = uuid4()
    run = a_run(status="running", lease_token=token, leased_by=uuid4(), lease_expires_at="2030-01-01T00:00:00Z")
    assert str(token) not in call("durable_export", run.pk).out


def test_text_is_written_as_it_is_stored(call: Call) -> None:
    run = a_run(status="blocked")
    Payload.objects.create(run_id=run.pk, kind="input", data="{broken\x1b")
    [document] = call("durable_export", run.pk).data
    assert document["payloads"]["input"] == "{broken\x1b"


def test_several_into_a_file(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_durable.management.commands.durable_export.BATCH", 2)
    runs = [doubling.enqueue(number) for number in range(5)]
    file = tmp_path / "runs.json"
    ids = [run.id for run in runs]
    assert call("durable_export", *ids, ids[0], "--output", file).out == f"Wrote 5 runs to {file}.\n"
    assert [document["run"]["id"] for document in json.loads(file.read_bytes())] == [str(one) for one in ids]


# --- a line for each run ---------------------------------------------------------------------


def complete(text: str) -> list[Any] | None:
    """The runs of such a file; None where it was cut off."""
    *lines, last = text.splitlines() or [""]
    try:
        end = json.loads(last)
    except ValueError:
        return None
    return [json.loads(line) for line in lines] if end == {"format": END, "version": 1, "runs": len(lines)} else None


def exported_in_the_admin(*ids: UUID) -> str:
    client = Client()
    client.force_login(User.objects.create_superuser("boss"))
    data = {"action": "export_selected", "_selected_action": str(ids[0]), "confirmed": "1"}
    response = client.post(list_url(), {**data, "ids": ",".join(one.hex for one in ids)})
    return b"".join(response.streaming_content).decode()  # type: ignore[attr-defined]


@pytest.fixture(params=["command", "file", "admin"])
def lines(request: pytest.FixtureRequest, call: Call, tmp_path: Path) -> Any:
    """How a person gets such a file."""

    def into_a_file(*ids: UUID) -> str:
        call("durable_export", *ids, "--lines", "--output", tmp_path / "runs.jsonl")
        return (tmp_path / "runs.jsonl").read_text()

    ways = {"command": lambda *ids: call("durable_export", *ids, "--lines").out, "file": into_a_file}
    return ways.get(request.param, exported_in_the_admin)


@pytest.mark.parametrize("count", [1, 5])
def test_the_last_line_says_that_it_is_the_last(lines: Any, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("management.commands.durable_export.BATCH", "admin.exports.IN_MEMORY"):
        monkeypatch.setattr(f"django_durable.{module}", 2)
    ids = [doubling.enqueue(number).id for number in range(count)]
    text = lines(*ids)
    found = complete(text)
    assert found is not None and {document["run"]["id"] for document in found} == {str(one) for one in ids}
    assert len(text.splitlines()) == count + 1
    assert text.splitlines()[-1] == f'{{"format": "django_durable.end", "version": 1, "runs": {count}}}'
    # Wherever it is cut, it shows.
    for end in (0, 1, text.index("\n"), text.index("\n") + 1, len(text) - 2, text.rindex("\n", 0, -1) + 1):
        assert complete(text[:end]) is None
    assert all(read(document).run_id in ids for document in found)
    with pytest.raises(ExportUnreadable, match="has no run in it"):
        read(json.loads(text.splitlines()[-1]))


def test_what_fails_on_its_way_has_no_last_line(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [doubling.enqueue(number).id for number in range(3)]
    monkeypatch.setattr(exports, "IN_MEMORY", 2)
    asked: list[int] = []

    def failing(some: list[UUID]) -> Iterator[Any]:
        asked.append(len(some))
        if len(asked) > 1:
            raise OSError("the disk is gone")
        return export_runs(some)

    monkeypatch.setattr(exports, "export_runs", failing)
    sent: list[str] = []
    with pytest.raises(OSError, match="the disk is gone"):
        sent.extend(exports._lines([ids], may_see=True))
    assert len(sent) == 2 and asked == [2, 1] and complete("".join(sent)) is None


def test_a_list_ends_with_its_bracket(call: Call) -> None:
    """So nothing of another kind has to stand in it: a list that was cut off is no JSON."""
    text = call("durable_export", doubling.enqueue(1).id).out
    assert text.endswith("]\n")
    with pytest.raises(json.JSONDecodeError):
        json.loads(text[:-2])


def test_what_cannot_be_written(call: Call, tmp_path: Path) -> None:
    unknown, known = uuid4(), doubling.enqueue(1)
    file = tmp_path / "runs.json"
    assert call("durable_export", known.id, unknown, "--output", file).failed == f"There is no run {unknown}."
    assert not file.exists()
    assert "No such file or directory" in (call("durable_export", known.id, "--output", tmp_path / "a/b").failed or "")


def test_nothing_but_reading(call: Call) -> None:
    run = parent.enqueue(number=1)
    run_until_idle()
    with CaptureQueriesContext(connection) as queries:
        call("durable_export", run.id)
    assert written(queries) == []
    # Batch by batch, and not run by run.
    assert len(queries) < 20


def written(queries: CaptureQueriesContext) -> list[str]:
    harmless = ("SELECT", "SAVEPOINT", "RELEASE", "ROLLBACK TO", "SET TRANSACTION", "PRAGMA QUERY_ONLY")
    return [query["sql"] for query in queries if not query["sql"].upper().startswith(harmless)]


# --- reading back ----------------------------------------------------------------------------


def exported(call: Call, run_id: UUID) -> Any:
    return call("durable_export", run_id).data[0]


def test_it_is_read_back(call: Call) -> None:
    handle = listening.enqueue()
    run_until_idle()
    document = exported(call, handle.id)
    stored = {entry.path: entry for entry in JournalEntry.objects.filter(run_id=handle.id)}
    Run.objects.all().delete()
    found = read(document)
    assert (found.run_id, found.workflow, found.is_cancelling, found.unreadable) == (
        handle.id,
        "app.listening",
        False,
        "",
    )
    assert {path: (entry.kind, entry.status, entry.seq, entry.wake_at) for path, entry in found.entries.items()} == {
        path: (entry.kind, entry.status, entry.seq, entry.wake_at) for path, entry in stored.items()
    }
    assert stored.keys() == {"packed"}


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (lambda document: [], "has no run in it"),
        (lambda document: {**document, "format": "other"}, f"its format is not '{FORMAT}'"),
        (lambda document: {**document, "version": 2}, "its version is 2, and this release reads 1"),
        (lambda document: {**document, "run": {}}, "damaged .KeyError: 'id'"),
        (lambda document: {**document, "journal": None}, "damaged .TypeError"),
    ],
)
def test_what_is_no_export(call: Call, damage: Any, text: str) -> None:
    document = exported(call, doubling.enqueue(1).id)
    with pytest.raises(ExportUnreadable, match=text):
        read(damage(document))


def test_an_entry_of_a_newer_release_is_told_and_not_guessed(call: Call) -> None:
    run = get_run(doubling.enqueue(1).id)
    run_until_idle()
    document = exported(call, run.id)
    document["journal"][0]["kind"] = "dance"
    assert "journal entry 'double': 'dance' is not a valid Kind" in read(document).unreadable
