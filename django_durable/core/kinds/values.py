"""Values that differ each time one asks, made the same for every replay."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import cast
from uuid import UUID

from ..flow.flow import Flow
from ..journal.journal import Entry
from ..journal.states import EntryStatus, Kind
from ..payloads.codec import decode, encode


def now(flow: Flow) -> datetime:
    """The time when this call was first reached; journaled with the next durable write."""
    flow.require_open("now")
    # Escaped names never hold a bare "%", so no name that a person chose can be this path.
    path = f"{flow.scope}%now[{flow.claimed.count('%now')}]"
    entry = flow.find(path, Kind.VALUE)
    if entry is None:
        flow.require_way()
        entry = Entry(path, Kind.VALUE, EntryStatus.SUCCEEDED, value=encode(flow.journal.now()))
        flow.record(entry)
    return cast(datetime, decode(cast(str, entry.value)))


def _digest(flow: Flow, sort: str) -> bytes:
    flow.require_open(sort)
    turn = flow.claimed.count(sort)
    return hashlib.sha256(f"{flow.run.run_id}\n{flow.scope}\n{sort}\n{turn}".encode()).digest()


def uuid4(flow: Flow) -> UUID:
    """A UUID drawn from the run's id, the scope and the count of such calls in it."""
    return UUID(bytes=_digest(flow, "uuid4")[:16], version=4)


def random(flow: Flow) -> float:
    """A float in [0, 1), drawn as ``uuid4`` is (53 bits, as ``random.random`` has)."""
    return (int.from_bytes(_digest(flow, "random")[:8]) >> 11) * 2.0**-53
