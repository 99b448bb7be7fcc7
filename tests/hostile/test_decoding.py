"""Stored texts are data: whoever can write to the tables cannot make a process import or call what it names."""

from __future__ import annotations

import base64
import json
import pickle
import sys
from collections.abc import Callable, Iterator
from io import StringIO
from itertools import product
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from django_durable import get_run
from django_durable.client.handle import RunHandle
from django_durable.client.schedules import fire_now
from django_durable.core.payloads.codec import decode, encode
from django_durable.exceptions import DurableError, PayloadUndecodable
from django_durable.models import Event, JournalEntry, Payload, Run, Schedule
from django_durable.testing import run_until_idle
from tests.admin.every import make_rows
from tests.admin.pages import run_url
from tests.hostile.app.workflows import read_back
from tests.hostile.corpus import DAMAGED
from tests.hostile.ends import all_undefined, start_all, statuses_of, the_next_ones_are_well
from tests.schedules.making import fire_loop

pytestmark = [pytest.mark.django_db, pytest.mark.contract, pytest.mark.queueless]

TRAP = "tests.hostile.trap"
SPRING = f"{TRAP}.spring"
SPRUNG = "taken for the path of code"
"""What the trap says."""


class Springs:
    def __reduce__(self) -> Any:
        # By its name: whoever unpickles it imports the trap.
        return (__import__, (TRAP,))


PICKLE = base64.b64encode(pickle.dumps(Springs())).decode()
ENVELOPES = {
    "jsonpickle": {"py/object": SPRING, "py/state": {}},
    "jsonpickle call": {"py/reduce": [{"py/type": SPRING}, {"py/tuple": ["id"]}]},
    "exception by path": {"exc_module": TRAP, "exc_type": "spring", "exc_message": ["id"]},
    "failure by path": {"type": SPRING, "message": "x", "traceback": "", "cause": {"type": SPRING}},
    "constructor": {"lc": 2, "type": "constructor", "id": [*TRAP.split("."), "spring"], "kwargs": {"command": "id"}},
    "not implemented": {"lc": 1, "type": "not_implemented", "id": [TRAP], "method": [None, "spring"], "args": [1]},
    "our tag": {"$": SPRING, "v": "id"},
    "our tag of a type": {"$": f"@{SPRING}", "v": {}},
    "our tag of an import": {"$": "import", "v": TRAP},
    "our tag in a tag": {"$": "tuple", "v": [{"$": SPRING, "v": 1}]},
    "our tag as a dict": {"$": {"$": "str", "v": ["tuple"]}, "v": []},
    "our dict tag": {"$": "dict", "v": [[{"$": SPRING, "v": 1}, 1]]},
    "our model tag": {"$": "model", "v": [SPRING, 1]},
    "our zone": {"$": "datetime", "v": ["2024-01-01", 0, f"../../{TRAP}"]},
    "our event": {"$": "event", "v": [SPRING, SPRING, SPRING]},
    "our taken event": {"$": "taken_event", "v": {"name": SPRING, "payload": 1, "sent_at": SPRING}},
    "our outcome": {"$": "outcome", "v": {"ok": True, "value": 1, "error": None, "failure": {"step": SPRING}}},
    "pickle": {"$": "pickle", "v": PICKLE},
    "pickle as bytes": {"$": "bytes", "v": PICKLE},
    "python": {"__class__": SPRING, "__module__": TRAP, "__reduce__": [SPRING, ["id"]], "__import__": TRAP},
    "yaml": f"!!python/object/apply:{SPRING} ['id']",
    "dotted path": SPRING,
}
TEXTS = {
    **{what: json.dumps(given) for what, given in ENVELOPES.items()},
    "raw pickle": PICKLE,
    "raw yaml": f"!!{TRAP}",
    **{f"damaged: {text[:20]}": text for text in DAMAGED},
}


@pytest.fixture(autouse=True)
def _not_sprung() -> Iterator[None]:
    yield
    assert TRAP not in sys.modules


def test_the_trap_would_spring() -> None:
    with pytest.raises(AssertionError, match=SPRUNG):
        pickle.loads(base64.b64decode(PICKLE))  # noqa: S301  (our own, two lines above)


@pytest.mark.parametrize("what", TEXTS)
def test_it_is_decoded_as_data_or_not_at_all(what: str) -> None:
    try:
        value = decode(TEXTS[what])
    except PayloadUndecodable as error:
        assert len(str(error)) < 500
    else:
        assert encode(value)
        assert not isinstance(value, type | BaseException)


# --- rows ------------------------------------------------------------------------------------


def _as_input(run_id: UUID, text: str) -> None:
    Payload.objects.filter(run_id=run_id, kind="input").update(data=text)
    JournalEntry.objects.filter(run_id=run_id).delete()
    # Which has told what the run waits for.
    Run.objects.filter(pk=run_id).update(status="queued", queued_at=timezone.now(), waiting_on="", wake_at=None)


def _as_value(run_id: UUID, text: str) -> None:
    JournalEntry.objects.filter(run_id=run_id, path="first").update(value=text)


def _as_error(run_id: UUID, text: str) -> None:
    JournalEntry.objects.filter(run_id=run_id, path="first").update(status="failed", value=None, error=text)


def _as_event(run_id: UUID, text: str) -> None:
    Event.objects.filter(run_id=run_id, name="said").update(payload=text)


def _as_path(run_id: UUID, text: str) -> None:
    JournalEntry.objects.filter(run_id=run_id, path="first").update(path=text[:500])


def _as_kind(run_id: UUID, text: str) -> None:
    JournalEntry.objects.filter(run_id=run_id, path="first").update(kind=text[:6])


PLACES: dict[str, Callable[[UUID, str], None]] = {
    "input": _as_input,
    "value": _as_value,
    "error": _as_error,
    "event": _as_event,
    "path": _as_path,
    "kind": _as_kind,
}


def written_by_another_hand(*places: str) -> dict[tuple[str, str], RunHandle[Any]]:
    """Runs that are ready to go on, of each of which one row says by now what nobody of ours has stored."""
    names = list(product(places, TEXTS))
    runs: dict[tuple[str, str], RunHandle[Any]] = start_all(read_back, {name: {"value": "well"} for name in names})
    run_until_idle()
    assert set(statuses_of(runs).values()) == {"waiting"}
    for (place, what), run in runs.items():
        run.send_event("said", 1)
        PLACES[place](run.id, TEXTS[what])
    return runs


@pytest.mark.parametrize("place", PLACES)
def test_a_run_whose_rows_were_written_by_another_hand_ends_or_is_blocked(place: str) -> None:
    runs = written_by_another_hand(place)
    run_until_idle()
    assert all_undefined(runs) == {}
    if place == "kind":
        assert set(statuses_of(runs).values()) == {"blocked"}
    assert the_next_ones_are_well()


def page_url(run: Run, page: str) -> str:
    return run_url(run).replace("change/", page)


KINDS = ("input", "output", "error", "retry", "progress", "notes", "block", "missed")


@pytest.mark.parametrize("what", TEXTS)
def test_whoever_reads_a_run_reads_data(admin_client: Client, what: str) -> None:
    rows, text = make_rows(), TEXTS[what]
    for kind in KINDS:
        Payload.objects.update_or_create(run=rows.run, kind=kind, defaults={"data": text})
    JournalEntry.objects.filter(run=rows.run).update(value=text, error=text)
    event = Event.objects.create(run=rows.run, name="said", payload=text, response=text)
    run = get_run(rows.run.pk)
    for look in (
        lambda: run.error, lambda: run.progress, lambda: run.annotations, lambda: run.divergence, run.why, run.steps,
        run.log, lambda: run.result(timeout=0), lambda: run.rerun(),
    ):  # fmt: skip
        try:
            look()
        except (DurableError, TypeError, ValueError):
            continue
    for url in (run_url(rows.run), page_url(rows.run, "value/?of=input"), page_url(rows.run, "live/")):
        assert admin_client.get(url).status_code in (200, 404)
    assert event.pk
    for command in (
        ["durable_runs", str(run.id)],
        ["durable_runs", str(run.id), "--json"],
        ["durable_export", str(run.id)],
    ):
        call_command(*command, stdout=StringIO())
    run_until_idle()
    assert the_next_ones_are_well()


# --- names -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["os.system", SPRING, TRAP, "builtins.eval", f"{TRAP}:spring", "django_durable.admin"])
def test_a_workflow_is_found_by_its_registered_name_and_by_no_path(name: str) -> None:
    run_id = uuid4()
    Run.objects.create(
        id=run_id, workflow=name, queue="default", status="queued", queued_at=timezone.now(), root_id=run_id
    )
    Payload.objects.create(run_id=run_id, kind="input", data='{"command":"id"}')
    schedule = Schedule.objects.create(
        workflow=name, name="hostile", expression="* * * * *", input='{"command":"id"}', next_fire_at=timezone.now()
    )
    run_until_idle()
    fire_loop().tick()
    with pytest.raises(DurableError):
        fire_now(schedule)
    run = get_run(run_id)
    assert (run.status, run.run.claims) == ("queued", 0)
    assert run.why().text
    again = run.rerun()
    run_until_idle()
    assert again.refresh().run.claims == 0
    assert Run.objects.count() == 2


@pytest.mark.parametrize("what", TEXTS)
def test_a_file_that_is_to_be_replayed_is_read_as_data(what: str, tmp_path: Path) -> None:
    document = {
        "format": "django_durable.run", "version": 1,
        "run": {
            "id": str(uuid4()), "workflow": "hostile.read", "phase": "forward", "attempt": 1, "root_id": str(uuid4()),
            "created_at": "2024-01-01T00:00:00+00:00", "cancel_requested_at": None,
        },
        "payloads": {"input": TEXTS[what]},
        "journal": [],
    }  # fmt: skip
    for number, content in enumerate((TEXTS[what], json.dumps(document), json.dumps([document, ENVELOPES.get(what)]))):
        file = tmp_path / f"{number}.json"
        file.write_text(content)
        try:
            call_command("durable_replay", "--file", str(file), stdout=StringIO())
        except CommandError as error:
            assert len(str(error)) < 1_000
