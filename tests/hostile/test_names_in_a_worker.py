"""Names, tags, keys and schedules that a real worker process meets: it lives, and whatever is called so has its end."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from django.utils import timezone

from django_durable import get_run
from django_durable.admin.schedule_form import NewScheduleForm
from django_durable.client import schedules
from django_durable.client.handle import RunHandle
from django_durable.exceptions import InvalidName
from django_durable.models import Fire, Run, Schedule
from tests.admin.every import NEW
from tests.hostile.app.workflows import awaiting, naming, taking
from tests.hostile.corpus import TEXTS
from tests.hostile.ends import start_all, statuses_of
from tests.hostile.processes import hostile_worker
from tests.hostile.test_log_lines import unfit
from tests.hostile.test_names import NEVER, PLAIN
from tests.hostile.test_worker import forged, is_well, wait_for_all
from tests.processes import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]

Runs = dict[Any, RunHandle[Any]]
PLACES = ("step", "event", "child")
"""Where texts are names in a workflow here; `test_names.py` has the other places."""


def test_whatever_runs_and_what_is_in_them_are_called() -> None:
    """One worker for all of it, which finds everything there when it starts."""
    tagged, keyed, rows = let_in(with_tag), let_in(with_key), due_schedules()
    assert set(tagged) == set(keyed) == set(rows)
    assert set(tagged) >= PLAIN and set(tagged).isdisjoint(NEVER)
    heard: Runs = {what: with_event(what) for what in TEXTS}
    named: Runs = start_all(
        naming, {(where, what): {"where": where, "what": what} for where in PLACES for what in TEXTS}
    )
    worker = hostile_worker("--verbosity", "2")
    fired = fires_of(rows)
    everything = {"tag": tagged, "key": keyed, "schedule": fired, "event": heard, "name": named}
    wait_for_all({(kind, what): run for kind, runs in everything.items() for what, run in runs.items()})
    for runs in (tagged, keyed, fired):
        assert {what: run.result(timeout=0) for what, run in runs.items()} == {what: TEXTS[what] for what in runs}
    assert statuses_of(heard) == {what: "succeeded" if what in tagged else "failed" for what in TEXTS}
    ends = statuses_of(named)
    assert {name for name, status in ends.items() if name[1] in PLAIN and status != "succeeded"} == set()
    assert {name for name, status in ends.items() if name[1] in NEVER and status != "failed"} == set()
    assert {what for what, run in tagged.items() if Run.objects.tagged(TEXTS[what]).get().pk != run.id} == set()
    assert let_in(with_key) == keyed
    is_well(worker)
    assert "fired schedule=" in worker.log
    assert forged(worker.log) == []
    assert unfit(worker.log) == []


def let_in(start: Callable[[str], RunHandle[Any]]) -> Runs:
    """A run for each text that this door lets in."""
    runs: Runs = {}
    for what, text in TEXTS.items():
        with suppress(InvalidName):
            runs[what] = start(text)
    return runs


def with_tag(text: str) -> RunHandle[Any]:
    return taking.using(tags=[text]).enqueue(text)


def with_key(text: str) -> RunHandle[Any]:
    return taking.using(idempotency_key=text).enqueue(text)


def with_event(what: str) -> RunHandle[Any]:
    """What cannot be sent nobody can wait for either."""
    run = awaiting.enqueue(what)
    with suppress(InvalidName):
        run.send_event(TEXTS[what], what)
    return run


def due_schedules() -> dict[str, Schedule]:
    """As operators make them, due at once."""
    rows: dict[str, Schedule] = {}
    for what, text in TEXTS.items():
        more = {"workflow": taking.name, "name": text, "input": json.dumps({"value": text}), "catch_up": "latest"}
        form = NewScheduleForm({**NEW, **more, "expression": "0 6 1 1 *", "enabled": "on"})
        if form.is_valid():
            schedules.create(row := Schedule(**form.columns))
            rows[what] = row
    Schedule.objects.update(next_fire_at=timezone.now().replace(microsecond=0))
    return rows


def fires_of(rows: dict[str, Schedule]) -> Runs:
    """The runs that they have started."""
    fires = Fire.objects.filter(run_id__isnull=False)
    wait_until(lambda: fires.count() == len(rows), message="all schedules to fire")
    started = dict(fires.values_list("schedule_id", "run_id"))
    return {what: get_run(started[row.pk]) for what, row in rows.items()}
