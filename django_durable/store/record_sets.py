"""The rows of a batch as its statements take them: as JSON, or one by one as the parameters of a lone run's."""

from __future__ import annotations

from json.encoder import encode_basestring_ascii as quoted
from typing import Any

from ..core.journal.journal import Entry
from .batch import Batch
from .database import as_json, as_value
from .dialects import Dialect
from .lone import Shape, add_parameters

AT_ONCE = ("entries", "forgotten", "payloads", "logged", "leaving")
"""The record sets that one statement can write."""
IDS = "ids"
"""The parameter that names the runs of a batch of several."""
Given = tuple[tuple[str, Shape | None], ...]
"""Names of record sets, each with the shape of its row where that is parameters."""


def told(batch: Batch) -> tuple[Given, dict[str, Any]]:
    """The record sets of a batch that is written at once, and the parameters that tell of its rows."""
    if len(batch.claims) == 1:
        return _told_of_one(batch)
    names = ("claims", *[name for name in AT_ONCE if getattr(batch, name)])
    parameters = {name: written(batch, name) for name in names}
    parameters[IDS] = batch.dialect.ids(lease.run_id for lease in batch.claims)
    return tuple((name, None) for name in names), parameters


def _told_of_one(batch: Batch) -> tuple[Given, dict[str, Any]]:
    [lease], [run_id], d = batch.claims, batch.keys, batch.dialect
    parameters: dict[str, Any] = {}
    given: list[tuple[str, Shape | None]] = [
        ("claims", add_parameters(parameters, "claims", {"id": run_id, "token": d.key(lease.token)}))
    ]
    for name in AT_ONCE:
        rows = getattr(batch, name)
        if len(rows) == 1 and name != "logged":
            row = _entry_row(d, *rows[0]) if name == "entries" else rows[0]
            given.append((name, add_parameters(parameters, name, row)))
        elif rows:
            given.append((name, None))
            parameters[name] = written(batch, name)
    return tuple(given), parameters


def written(batch: Batch, name: str) -> str:
    """A record set as JSON."""
    match name:
        # What every commit has is not left to the encoder of dicts, which takes three times as long.
        case "claims":
            key, claims = batch.dialect.key, zip(batch.keys, batch.claims, strict=True)
            written_claims = [f'{{"id":"{run_id}","token":"{key(one.token)}"}}' for run_id, one in claims]
            return f"[{','.join(written_claims)}]"
        case "entries":
            return f"[{','.join([_entry_written(batch.dialect, *one) for one in batch.entries])}]"
        case "leaving" | "payloads":
            return f"[{','.join([_row_written(row) for row in getattr(batch, name)])}]"
        case _:
            return as_json(getattr(batch, name))


def _row_written(row: dict[str, Any]) -> str:
    """A row of texts, and of values that few rows have: all but texts is left to the encoder."""
    given = [
        f'"{name}":{quoted(value) if isinstance(value, str) else as_value(value)}'
        for name, value in row.items()
        if value is not None
    ]
    return f"{{{','.join(given)}}}"


def _entry_written(d: Dialect, run_id: Any, entry: Entry) -> str:
    always = (
        f'{{"run_id":"{run_id}","path":{quoted(entry.path)},"seq":{entry.seq},"kind":"{entry.kind}",'
        f'"status":"{entry.status}","attempts":{entry.attempts}'
    )
    value = "" if entry.value is None else f',"value":{quoted(entry.value)}'
    seconds = "" if entry.seconds is None else f',"seconds":{entry.seconds!r}'
    rare = "," + as_json([_rare(d, entry)])[2:-2] if has_rare(entry) else ""
    return f"{always}{value}{seconds}{rare}}}"


def _entry_row(d: Dialect, run_id: Any, entry: Entry) -> dict[str, Any]:
    row = {
        "run_id": run_id,
        "path": entry.path,
        "seq": entry.seq,
        "kind": entry.kind,
        "status": entry.status,
        "attempts": entry.attempts,
        "value": entry.value,
        "seconds": entry.seconds,
    }
    return row | _rare(d, entry) if has_rare(entry) else row


def has_rare(entry: Entry) -> bool:
    """Whether it has what most entries have not."""
    is_timed = entry.wake_at is not None or entry.wake_after is not None
    return is_timed or entry.error is not None or bool(entry.awaits or entry.undo)


def _rare(d: Dialect, entry: Entry) -> dict[str, Any]:
    return {
        "error": entry.error,
        "wake_at": d.instant(entry.wake_at),
        "wake_after": entry.wake_after,
        "awaits": entry.awaits or None,
        "undo": entry.undo or None,
    }
