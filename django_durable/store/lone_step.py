"""The commonest commit of all: a run that is alone has made one step, and nothing else has happened.

All that a batch is written with can write it too. This takes a third of the steps in Python, which count where each of
them waits for the one before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db.utils import IntegrityError

from ..core.flow.lease import Lease
from ..core.journal.journal import Entry, Write
from .database import Database, Row
from .dialects import Dialect
from .lone import named
from .receipts import Receipt
from .record_sets import Given, has_rare
from .statements import Typed

CLAIM = ("id", "token")
ALWAYS = ("run_id", "path", "seq", "kind", "status", "attempts")
NAMES = tuple([named("claims", column) for column in CLAIM] + [named("entries", column) for column in ALWAYS])
VALUE, SECONDS = named("entries", "value"), named("entries", "seconds")
GIVEN: dict[tuple[bool, bool], Given] = {
    (has_value, has_seconds): (
        ("claims", CLAIM),
        ("entries", ALWAYS + ("value",) * has_value + ("seconds",) * has_seconds),
    )
    for has_value in (False, True)
    for has_seconds in (False, True)
}
"""By whether the entry has a value, and whether it is known how long it took."""

Statement = Callable[[Dialect, Given], Typed]
Send = Callable[..., "list[Row] | None"]
"""``rows`` of a database, or its ``rows_at_once``."""


def write_step(db: Database, lease: Lease, write: Write, statement: Statement, send: Send) -> Receipt | None:
    """Make a step durable by ``statement``, which writes one entry that is new; None where there is more to it, or no
    answer. A receipt that is not held does not say whether the lease is lost."""
    entry = _step_alone(write)
    d = db.dialect
    # Where the statement fails it would take the caller's transaction along.
    if entry is None or lease.is_suspect or not d.has_writing_ctes or db.connection.in_atomic_block:
        return None
    run_id = d.key(lease.run_id)
    always = (entry.path, entry.seq, entry.kind, entry.status, entry.attempts)
    parameters: dict[str, Any] = dict(zip(NAMES, (run_id, d.key(lease.token), run_id, *always), strict=True))
    if has_value := entry.value is not None:
        parameters[VALUE] = entry.value
    if has_seconds := entry.seconds is not None:
        parameters[SECONDS] = entry.seconds
    try:
        rows = send(statement(d, GIVEN[has_value, has_seconds]), **parameters)
    except IntegrityError:
        # It is there, of a commit that nobody was told of.
        entry.is_new = False
        return None
    if rows is None:
        return None
    if not rows:
        return Receipt()
    [(_, cancelling, pausing)] = rows
    return Receipt(is_held=True, cancelling=cancelling, pausing=pausing)


def _step_alone(write: Write) -> Entry | None:
    if write.outcome is not None or len(write.entries) != 1 or write.log is not None or write.progress is not None:
        return None
    if write.children or write.consumed or write.answers or write.notes or write.forgotten or write.unwanted:
        return None
    [entry] = write.entries.values()
    return entry if entry.is_new and not has_rare(entry) else None
