"""Can stored values be read? They are loaded in portions, so that a few large ones do not fill the memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

from ...core.payloads.codec import decode
from ...exceptions import PayloadUndecodable
from ..database import Database, as_json
from ..sql.invariants import sizes as sql
from .catalogue import RUNS, SCHEDULES, VALUES
from .finding import Finding, Violation
from .walking import Bounds, Window, timed, walk

WINDOW = 500
"""Runs in a window at most: each may have a long journal."""
PAGE = 10_000
"""Values of which the size is asked for at a time."""
PORTION_BYTES, PORTION_VALUES = 8 * 1024 * 1024, 1_000
"""And that are loaded at a time."""


class Place(NamedTuple):
    """Where a value stands, and its bytes. What a schedule has is no run's."""

    place: str
    run_id: UUID | None
    name: str
    size: int


def examine_values(db: Database, bounds: Bounds) -> Finding:
    """Decode every stored value of runs that are not blocked. This reads all of them: it takes long, and what is read
    pushes other things out of the database's memory."""
    return timed(VALUES, lambda finding: _walk(db, bounds, finding))


def _walk(db: Database, bounds: Bounds, finding: Finding) -> None:
    small = Bounds(bounds.limit, min(bounds.window, WINDOW), bounds.timeout)

    def find(places: Iterable[Place]) -> bool:
        rows = 0
        for portion in _portions(places):
            # Where a statement is stopped later on, a part of the window is looked at once more.
            finding.violations += [one for one in _unreadable(db, portion) if one not in finding.violations]
            rows += len(portion)
            if len(finding.violations) >= bounds.limit:
                break
        finding.rows += rows
        del finding.violations[bounds.limit :]
        return len(finding.violations) < bounds.limit

    walk(db, RUNS, small, lambda window: find(_places(db, window)))
    if len(finding.violations) < bounds.limit:
        walk(db, SCHEDULES, small, lambda window: find(_inputs(db, window)))


def _places(db: Database, window: Window) -> Iterator[Place]:
    """All of a window; so many at a time, since a journal may be long."""
    d = db.dialect
    bounds = {"after": window.after, "until": window.until, "limit": PAGE}
    start = {"run": window.after, "place": "", "name": ""}
    is_more = True
    while is_more:
        rows = db.rows(sql.measure(d), **bounds, **start)
        for place, run_id, name, size in rows:
            yield Place(place, d.read_key(run_id), name, size)
            start = {"run": d.key(d.read_key(run_id)), "place": place, "name": name}
        is_more = len(rows) == PAGE


def _inputs(db: Database, window: Window) -> Iterator[Place]:
    rows = db.rows(sql.measure_inputs(db.dialect), after=window.after, until=window.until)
    return (Place(place, None, name, size) for place, _, name, size in rows)


def _portions(places: Iterable[Place]) -> Iterator[list[Place]]:
    portion: list[Place] = []
    size = 0
    for one in places:
        if portion and (size + one.size > PORTION_BYTES or len(portion) == PORTION_VALUES):
            yield portion
            portion, size = [], 0
        portion.append(one)
        size += one.size
    if portion:
        yield portion


def _unreadable(db: Database, portion: Sequence[Place]) -> list[Violation]:
    d = db.dialect
    which: defaultdict[str, list[dict[str, str]]] = defaultdict(list)
    for one in portion:
        which[one.place].append({"run_id": d.key(one.run_id), "name": one.name})
    found = []
    for place, named in which.items():
        for run_id, name, text in db.rows(sql.load(d, place), which=as_json(named)):
            if (reason := _reason(text)) is not None:
                whose = None if run_id is None else d.read_key(run_id)
                found.append(Violation(VALUES.id, whose, f"{_told(place, name)} cannot be read: {reason}"))
    return found


def _reason(text: str | None) -> str | None:
    """Why it cannot be read. Since the measure it may have gone."""
    try:
        if text is not None:
            decode(text)
    except PayloadUndecodable as error:
        return error.reason
    return None


def _told(place: str, name: str) -> str:
    match place:
        case "payload":
            return f"its {name}"
        case "event" | "response":
            return f"its {'payload' if place == 'event' else 'response'} of event {name}"
        case sql.INPUT:
            return f"the {place} {name}"
        case _:
            return f"its {place} at {name}"
