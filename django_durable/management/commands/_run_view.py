"""One run as text for people and as data for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...client.listing import Excerpt, RunView
from ...client.sentences import Why
from ...models import Run
from ._shell import iso, printable, table

TIMES = (
    *("created_at", "queued_at", "started_at", "finished_at", "wake_at", "deadline_at"),
    *("cancel_requested_at", "pause_requested_at"),
)


def as_data(view: RunView, why: Why) -> dict[str, Any]:
    return {
        **_columns(view.run),
        "why": {"reason": why.reason, "text": why.text},
        "tags": view.tags,
        "payloads": {kind: _excerpt(payload) for kind, payload in view.payloads.items()},
        "journal": [_entry(entry) for entry in view.entries],
        "journal_entries": view.entry_count,
        "events": [
            {
                "name": event.name,
                "sent_at": iso(event.sent_at),
                "consumed_at": iso(event.consumed_at),
                "consumed_by": event.consumed_by,
            }
            for event in view.events
        ],
        "audit": [
            {"at": iso(one.at), "verb": one.verb, "actor": one.actor, "reason": one.reason, "before": one.status_before}
            for one in view.audit
        ],
    }


def as_text(view: RunView, why: Why) -> str:
    return "\n".join(_lines(as_data(view, why)))


def _columns(run: Run) -> dict[str, Any]:
    return {
        "id": str(run.pk),
        "workflow": run.workflow,
        "status": run.status,
        "phase": run.phase,
        "queue": run.queue,
        "priority": run.priority,
        "attempt": run.attempt,
        "claims": run.claims,
        "crashes": run.crashes,
        "parent": None if run.parent_id is None else str(run.parent_id),
        "forked_from": None if run.forked_from is None else str(run.forked_from),
        **{name: iso(getattr(run, name)) for name in TIMES},
        "leased_by": None if run.leased_by is None else str(run.leased_by),
        "lease_expires_at": iso(run.lease_expires_at),
    }


def _entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "seq": entry["seq"],
        "path": entry["path"],
        "kind": entry["kind"],
        "status": entry["status"],
        "attempts": entry["attempts"],
        "started_at": iso(entry["started_at"]),
        "finished_at": iso(entry["finished_at"]),
        "wake_at": iso(entry["wake_at"]),
        "awaits": entry["awaits"],
        "value": _excerpt(entry["value"]),
        "error": _excerpt(entry["error"]),
    }


def _excerpt(payload: Excerpt | None) -> dict[str, Any] | None:
    """The stored text, not its value: it may be cut, and it may be damaged."""
    return None if payload is None else {"text": payload.text, "bytes": payload.size}


def _lines(data: dict[str, Any]) -> Iterator[str]:
    facts = {name: value for name, value in data.items() if not isinstance(value, list | dict) and value is not None}
    facts |= {"why": data["why"]["text"], "tags": ", ".join(data["tags"]) or None}
    width = max(map(len, facts))
    for name, value in facts.items():
        if value is not None:
            yield f"{name:{width}}  {printable(value)}"
    for kind, payload in data["payloads"].items():
        yield f"{kind:{width}}  {_shown(payload)}"
    yield from _section("journal", [_entry_row(entry) for entry in data["journal"]])
    if (left := data["journal_entries"] - len(data["journal"])) > 0:
        yield f"… and {left:,} more entries"
    yield from _section("events", data["events"])
    yield from _section("audit", data["audit"])


def _section(title: str, rows: list[dict[str, Any]]) -> Iterator[str]:
    if rows:
        yield from ("", title, table(rows))


def _entry_row(entry: dict[str, Any]) -> dict[str, Any]:
    shown = {name: entry[name] for name in ("seq", "path", "kind", "status", "attempts", "finished_at")}
    return {**shown, "value": _shown(entry["error"] or entry["value"] or {"text": entry["awaits"], "bytes": 0})}


def _shown(payload: Mapping[str, Any]) -> str:
    text = printable(payload["text"])
    return text if payload["bytes"] <= len(payload["text"]) else f"{text}… ({payload['bytes']:,} bytes)"
