"""A run's timeline as its page draws it: a table whose rows have bars on one axis.

The table says in words all that the bars show. A thick bar is work, a thin line a wait, a pale bar what holds others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..conf import durable_settings
from ..core.flow.undoing import UNDO
from ..core.journal.states import LIVE, EntryStatus, Kind
from ..models import Run
from . import cells
from . import waterfall_words as words
from .axis import Axis
from .excerpts import excerpt_of
from .journal import ENTRIES_NEAR, LAST, THE_RUN, VALUE_EXCERPT, Listing, Try, Window
from .payloads import shown, shown_error
from .run_attempts import Part, is_between, made, parts_of
from .text import visible
from .timeline import Fold, Node, tree_of, walk
from .waterfall_rows import Bar, Line, Mark, Rows
from .whole_value import Addresses

if TYPE_CHECKING:
    from django.utils.safestring import SafeString

DEPTH_MOST = 8
TRIED = frozenset({Kind.STEP, Kind.UNDO, Kind.POLL})
BAR_LEAST = 1.2
"""Per cent: a bar of nothing is still seen."""
SETTLE = 20
"""A picture of what goes on changes when a bar would grow by so manieth of the whole: not with every look at it."""
SETTLED_FOR = (1, 5, 15, 60, 300, 900)
"""Seconds that it stands still for."""


@dataclass(slots=True)
class Waterfall:
    axis: Axis
    rows: list[SafeString] = field(default_factory=list)
    count: int = 0
    is_empty: bool = False
    """Whether there is nothing to draw: no entry, and no more than one attempt of the run."""
    before: str = ""
    """The address of the entries that come before; empty: there are none."""
    following: str = ""
    """Of those that come next."""
    last: str = ""
    """Of the last ones, where these come later."""
    neighbours: str = ""
    """Where one that is looked at alone is among those around it."""


class Sent(NamedTuple):
    """An event."""

    at: datetime
    name: str


@dataclass(slots=True, frozen=True)
class Family:
    """What else is drawn: the run's children by the paths of their entries, the events that were sent, and by path the
    attempts that were made again."""

    children: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    events: Sequence[Sent] = ()
    attempts: Mapping[str, list[Try]] = field(default_factory=dict)

    def parts_of(self, run: Run, now: datetime) -> list[Part]:
        """What the row of the run itself shows since it was started."""
        return parts_of(run, self.attempts.get(THE_RUN, ()), now)


def settled(run: Run, now: datetime) -> datetime:
    """The moment that a picture of the run shows as the present one."""
    age = max((now - (run.started_at or run.created_at)).total_seconds(), 0.0)
    step = next((step for step in SETTLED_FOR if step * SETTLE >= age), 3_600)
    return now - timedelta(seconds=now.timestamp() % step)


def waterfall_of(
    run: Run,
    entries: Listing,
    around: Iterable[dict[str, Any]],
    window: Window,
    family: Family,
    addresses: Addresses,
    now: datetime,
    *,
    may_fork: bool = False,
) -> Waterfall:
    """``entries`` are those of the ``window``, ``around`` the scopes in which they lie and that are outside of it."""
    around = list(around)
    nodes = tree_of(run, entries.rows, around, now, family.children)
    is_cut = entries.is_cut
    found = Waterfall(_axis_of(run, nodes, around, window, family, now, is_cut=is_cut), count=len(entries.rows))
    found.is_empty = not entries.rows and not (window.is_all and run.attempt > 1)
    draw, rows = _Drawing(run, found.axis, family, addresses, now, window.place), Rows(may_fork)
    if window.is_all:
        found.rows.append(rows.write(draw.run_itself()))
    found.rows += [rows.write(line) for line in draw.lines(nodes, window.inside)]
    if not window.is_alone:
        _link_pages(found, window, entries)
    elif entries.rows:
        found.neighbours = _address({"from": max(entries.rows[0]["seq"] - ENTRIES_NEAR // 2, 1), "near": 1})
    return found


def _link_pages(found: Waterfall, window: Window, entries: Listing) -> None:
    """Of the side that was not read: who came to this part by our links has come from there."""
    inside = {"in": window.inside} if window.inside else {}
    last = _address({**inside, "until": LAST})
    if not entries.rows:
        # Turns that are over leave the journal, and an address may be of before that.
        found.last = "" if window.is_last or not window.place else last
        return
    has_before = entries.is_cut if window.until else window.first > 1
    has_more = not window.is_last if window.until else entries.is_cut
    if has_before:
        found.before = _address({**inside, "until": entries.rows[0]["seq"] - 1})
    if has_more:
        found.following = _address({**inside, "from": entries.rows[-1]["seq"] + 1})
        found.last = last


def _address(query: Mapping[str, Any]) -> str:
    return f"?{urlencode(query)}#durable-timeline"


def _axis_of(
    run: Run,
    nodes: list[Node],
    around: Iterable[dict[str, Any]],
    window: Window,
    family: Family,
    now: datetime,
    *,
    is_cut: bool,
) -> Axis:
    """From the first to the last of what is shown: what comes after the listed entries is not idle, but elsewhere.

    The scopes ``around`` a part are wider than that, and what it did may be undone long after.
    """
    outside = {window.inside + UNDO, *(row["path"] for row in around)}
    every = [node for node in _every(nodes) if node.path not in outside]
    starts = [node.start for node in every if node.start]
    ends = [end for node in every for end in (node.end, _planned(run, node)) if end]
    if window.is_all:
        starts.append(run.created_at)
        ends += [] if is_cut else [run.finished_at or now, *(sent.at for sent in family.events)]
    parts = family.parts_of(run, now) if run.attempt > 1 and window.is_all and not is_cut else []
    starts += [part.start for part in parts]
    ends += [part.end for part in parts]
    start = min(starts, default=now)
    end = max(ends, default=start)
    work = [(node.start, node.end) for node in every if node.is_work and node.start and node.end]
    for node in every:
        work += _attempts(node, family)
    work += [(part.start, part.end) for part in parts if part.what == "failed"]
    return Axis(start, end, work, [*starts, *ends])


def _attempts(node: Node, family: Family) -> list[tuple[datetime, datetime]]:
    """Those that the log has of it, within its own span: a worker said when they were, and the database all else. Its
    clock may be another, or a coarser one."""
    if node.start is None or node.end is None:
        return []
    first, last = node.start, node.end
    return [(_within(first, a, last), _within(first, b, last)) for a, b, _wait in family.attempts.get(node.path, ())]


def _within(first: datetime, moment: datetime, last: datetime) -> datetime:
    return min(max(moment, first), last)


def _every(nodes: Iterable[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        yield from _every(node.children)


def _made_again(row: Mapping[str, Any]) -> int:
    """How many attempts at the entry were made again; those of a poll begin anew whenever it has asked."""
    if row["kind"] not in (Kind.STEP, Kind.UNDO):
        return 0
    return int(row["attempts"]) - int(row["status"] != EntryStatus.RETRYING)


def _planned(run: Run, node: Node) -> datetime | None:
    """Until when it waits, where the run will come back to it."""
    is_waiting = node.status in (EntryStatus.WAITING, EntryStatus.RETRYING)
    return node.entry["wake_at"] if node.entry and is_waiting and run.status in LIVE else None


@dataclass(slots=True, frozen=True)
class _Drawing:
    run: Run
    axis: Axis
    family: Family
    addresses: Addresses
    now: datetime
    place: Mapping[str, int | str]
    """Where the window is: what is closer by is to have there what is seen here."""

    def lines(self, nodes: list[Node], unfolded: str) -> Iterator[Line]:
        for depth, node in walk(nodes, unfolded):
            depth = min(depth, DEPTH_MOST)
            yield self._fold(node, depth) if isinstance(node, Fold) else self._node(node, depth)

    def run_itself(self) -> Line:
        run, over = self.run, self.run.finished_at or self.now
        bars = self._bars("wait", run.created_at, run.started_at or over)
        for part in self.family.parts_of(run, self.now):
            bars += self._bars(*part)
        events = [sent for sent in self.family.events if sent.at <= self.axis.end]
        marks = [Mark(self.axis.at(sent.at), words.sent(sent.name, sent.at)) for sent in events]
        return Line(
            gettext("the run"),
            0,
            bars,
            marks,
            attempts=made(run),
            tries=words.tries(self.family.attempts.get(THE_RUN, ())),
            started=cells.moment(run.created_at),
            duration=cells.duration(run.created_at, over),
            waits=words.until(run.wake_at) if run.wake_at and is_between(run) else "",
        )

    def _node(self, node: Node, depth: int) -> Line:
        label = words.label(node)
        line = Line(
            visible(label),
            depth,
            self._bars_of(node),
            above=visible(node.path.removesuffix(node.label)),
            fork_from=node.path if words.may_be_sent(node.path) else "",
            started=words.clock(node.start, self.axis.start),
            duration=cells.duration(node.start, node.end),
        )
        if node.children or node.entry:
            is_around = node.is_scope or node.children
            line.closer = _address({"in": node.path, **self.place} if is_around else {"at": node.path})
        if node.is_winner:
            line.state = cells.pill("succeeded", _("winner"))
        if node.entry:
            self._tell(line, node.entry)
        return line

    def _tell(self, line: Line, row: Mapping[str, Any]) -> None:
        line.seq, line.kind, line.attempts = row["seq"], words.kind(row), row["attempts"]
        logged = self.family.attempts.get(row["path"], ())
        line.tries = words.tries(logged)
        line.is_told_in_part = self._has_log and _made_again(row) > len(logged)
        line.state = cells.pill(row["status"], words.LABELS.get(row["status"], row["status"]))
        if (child := self.family.children.get(row["path"])) is not None:
            line.child_url = self.addresses.of_run(child["pk"])
            line.child_pills = child["pills"]
        if row["status"] in (EntryStatus.WAITING, EntryStatus.RETRYING):
            line.waits = words.waits(row)
        if row["finished_at"] is None:
            line.duration = ""
        if "error_text" in row:
            more = self.addresses.of("failure", path=row["path"])
            line.error = shown_error(self.run, excerpt_of(row, "error"), more, VALUE_EXCERPT)
        if row["kind"] == Kind.MAP:
            line.note = words.items(row)
        elif "value_text" in row and words.is_result(row):
            more = self.addresses.of("value", path=row["path"])
            line.value = shown(self.run, "value", excerpt_of(row, "value"), more, VALUE_EXCERPT)

    @property
    def _has_log(self) -> bool:
        """Whether its attempts are to be in the log: a fork begins without that of the run that it is of."""
        return durable_settings().LOG_LINES > 0 and self.run.forked_from is None

    def _fold(self, fold: Fold, depth: int) -> Line:
        starts = [node.start for node in fold.nodes if node.start]
        ends = [node.end for node in fold.nodes if node.end]
        counted = Counter(words.worst(node) for node in fold.nodes)
        labels = [(str(words.LABELS.get(status, status)), count) for status, count in counted.most_common()]
        told = [f"{count} {label}" if len(labels) > 1 else label for label, count in labels]
        start, end = min(starts, default=None), max(ends, default=None)
        return Line(
            gettext("%(count)d more: %(told)s") % {"count": len(fold.nodes), "told": ", ".join(told)},
            depth,
            self._bars("scope", start, end),
            started=words.clock(start, self.axis.start),
            duration=cells.duration(start, end),
            closer=_address({"in": fold.scope, **self.place}),
        )

    # --- bars ----------------------------------------------------------------------------------

    def _bars_of(self, node: Node) -> list[Bar]:
        if node.is_scope:
            return self._bars("scope", node.start, node.end)
        row = node.entry or {}
        is_undone = node.kind == Kind.UNDO and node.status != EntryStatus.FAILED
        what = "undo" if is_undone else node.status
        if node.is_work:
            return self._bars(what, node.start, node.end)
        # The journal keeps when the first one began and the last one ended; the log knows of those between.
        kept = _attempts(node, self.family)
        bars = self._bars("wait", node.start, node.end)
        for start, end in kept:
            bars += self._bars("failed", start, end)
        if row["attempts"] >= 1 and node.kind in TRIED:
            # Of a poll the first one may have been another time that it asked.
            bars += [] if kept or node.kind == Kind.POLL else self._bars("failed", node.start, node.start)
            bars += self._bars(what, node.end, node.end) if row["finished_at"] is not None else []
        elif node.status == EntryStatus.FAILED:
            bars += self._bars("failed", node.end, node.end)
        planned = _planned(self.run, node)
        # What happened since the moment of the picture is drawn where it was, and before what is still to come.
        since = max(self.now, node.end or self.now)
        if planned is not None and planned > since:
            bars += self._bars("planned", since, planned)
        return bars

    def _bars(self, what: str, start: datetime | None, end: datetime | None) -> list[Bar]:
        # What was done before or after all that is looked at is elsewhere.
        if start is None or end is None or start > self.axis.end or end < self.axis.start:
            return []
        x, until = self.axis.at(start), self.axis.at(end)
        width = max(until - x, BAR_LEAST)
        return [Bar(what, max(min(x, 100 - width), 0.0), width)]
