"""What a commit says to the database, as text."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from math import inf
from typing import Any
from uuid import UUID

import pytest

from django_durable.core.flow.lease import Lease
from django_durable.core.journal.journal import Entry, Write
from django_durable.core.journal.states import EntryStatus, Kind, PayloadKind, Phase, Status
from django_durable.store.batch import Batch
from django_durable.store.database import as_json
from django_durable.store.dialects import DIALECTS
from django_durable.store.record_sets import written

RUN, TOKEN = UUID(int=1), UUID(int=2)
MOMENT = datetime(2026, 7, 1, 12, 30, tzinfo=UTC)


@pytest.mark.parametrize("vendor", DIALECTS)
@pytest.mark.parametrize(
    "rare",
    [
        {},
        {"value": '"\\u00e9 \\"quoted\\" \\\\"', "seconds": 1e-07},
        {"error": '{"type":"ValueError"}', "seconds": 0.0},
        {"error": ""},
        {"wake_at": MOMENT},
        {"wake_after": 0.0},
        {"wake_after": 2.5, "awaits": "first\nsecond"},
        {"undo": True, "value": "null"},
    ],
    ids=["bare", "value", "error", "empty error", "wake_at", "at once", "awaits", "undo"],
)
def test_an_entry_is_written_as_its_encoder_would(vendor: str, rare: dict[str, Any]) -> None:
    d = DIALECTS[vendor]
    entry = Entry('a "quoted" / bäck\\slash \u2028 step', Kind.STEP, EntryStatus.RETRYING, seq=7, attempts=3, **rare)
    batch = Batch(d)
    batch.add(Lease(RUN, TOKEN, inf), Write({entry.path: entry}))
    [row], [claim] = json.loads(written(batch, "entries")), json.loads(written(batch, "claims"))
    if "wake_at" in rare:
        rare = {"wake_at": d.instant(MOMENT)}
    named = {"run_id": d.key(RUN), "path": entry.path, "seq": 7, "kind": "step", "status": "retrying", "attempts": 3}
    assert row == {**named, **rare}
    assert claim == {"id": d.key(RUN), "token": d.key(TOKEN)}
    assert written(batch, "entries").isascii()


@pytest.mark.parametrize(
    "row",
    [
        {"run_id": "a", "kind": PayloadKind.OUTPUT, "data": '"\\u00e9 \\"quoted\\"" \x7f \u2028 ä'},
        {"run_id": "a", "status": Status.SUCCEEDED, "block_reason": None, "phase": None, "undoes": None},
        {"run_id": "a", "status": Status.QUEUED, "fingerprint": "f", "phase": Phase.COMPENSATING, "undoes": True},
        {},
    ],
    ids=["payload", "end", "ending", "nothing"],
)
@pytest.mark.parametrize("name", ["payloads", "leaving"])
def test_rows_are_written_as_their_encoder_would(name: str, row: dict[str, Any]) -> None:
    batch = Batch(DIALECTS["postgresql"])
    getattr(batch, name).extend([row, row])
    assert written(batch, name) == as_json([row, row])
