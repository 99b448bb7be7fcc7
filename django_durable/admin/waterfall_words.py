"""What the rows of a timeline call things."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.utils.html import format_html, format_html_join
from django.utils.timezone import localtime
from django.utils.translation import gettext, ngettext, pgettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from ..core.flow.undoing import UNDO
from ..core.journal.states import EntryStatus, Kind
from ..core.names import ON_FAILURE
from . import cells
from .journal import Try
from .text import visible
from .timeline import Node

if TYPE_CHECKING:
    from django.utils.safestring import SafeString

LABELS = {**cells.ENTRY_LABELS, "open": _("open"), "abandoned": _("abandoned")}

KINDS = {
    Kind.STEP: pgettext_lazy("entry", "step"),
    Kind.SLEEP: pgettext_lazy("entry", "sleep"),
    Kind.EVENT: _("event"),
    Kind.CHILD: pgettext_lazy("entry", "child"),
    Kind.VALUE: pgettext_lazy("entry", "value"),
    Kind.UNDO: _("undo"),
    Kind.MARK: pgettext_lazy("entry", "mark"),
    Kind.BLOCK: pgettext_lazy("entry", "block"),
    Kind.JOIN: pgettext_lazy("entry", "join"),
    Kind.RACE: pgettext_lazy("entry", "race"),
    Kind.MAP: pgettext_lazy("entry", "map"),
    Kind.LOOP: pgettext_lazy("entry", "loop"),
    Kind.POLL: pgettext_lazy("entry", "poll"),
    Kind.GATE: pgettext_lazy("entry", "gate"),
}

TRIES_TOLD = 12
"""Attempts that a row tells of in words: the last of them."""
UNDECIDED = frozenset({Kind.JOIN, Kind.RACE, Kind.POLL})

_COUNT = re.compile('"count": ?([0-9]{1,9})[,}]')
_OURS = re.compile("%[a-z]")
"""In paths of entries that are no call's: nobody forks from there."""


def clock(value: datetime | None, first: datetime) -> str:
    """The time of day, with the date where that is not the one on which the timeline begins."""
    if value is None:
        return cells.NOTHING
    local = localtime(value)
    if local.date() != localtime(first).date():
        return cells.dated(local)
    return format_html('<time datetime="{}">{}</time>', local.isoformat(), f"{local:%H:%M:%S}")


def sent(name: str, at: datetime) -> str:
    """Of an event, to who points at its mark."""
    values = {"name": visible(name), "time": f"{localtime(at):%Y-%m-%d %H:%M:%S}"}
    return gettext("%(name)s was sent on %(time)s") % values


def may_be_sent(path: str) -> bool:
    """Whether a button may stand for this path: it is a call's, and what is sent is what is seen."""
    return not _OURS.search(path) and visible(path) == path


def label(node: Node) -> str:
    if node.path == ON_FAILURE:
        return gettext("on failure")
    return node.label.removesuffix(UNDO) or node.path


def kind(row: Mapping[str, Any]) -> str:
    return str(KINDS.get(row["kind"]) or visible(row["kind"]))


def worst(node: Node) -> str:
    """The status that stands for all that is in it."""
    for status in (EntryStatus.FAILED, EntryStatus.RETRYING, EntryStatus.WAITING, EntryStatus.OPEN):
        if status in node.statuses:
            return status
    return next(iter(sorted(node.statuses)), EntryStatus.SUCCEEDED)


def is_result(row: Mapping[str, Any]) -> bool:
    """Whether its value is what it came to: until then these keep there what they go on with."""
    return row["status"] == EntryStatus.SUCCEEDED or row["kind"] not in UNDECIDED


def items(row: Mapping[str, Any]) -> str:
    """How many a map has, as the beginning of its value tells to those who may see values; else nothing.

    The results are those of the items, and the rest of the value is the engine's.
    """
    found = _COUNT.search(row.get("value_text") or "")
    if found is None:
        return ""
    number = int(found[1])
    return ngettext("%(items)s item", "%(items)s items", number) % {"items": cells.grouped(number)}


def waits(row: Mapping[str, Any]) -> str:
    parts = []
    if row["awaits"] and row["kind"] == Kind.EVENT:
        parts.append(format_html(pgettext("waits", "for {}"), cells.name(row["awaits"].replace("\n", ", "))))
    if row["wake_at"]:
        parts.append(until(row["wake_at"]))
    return format_html_join(" ", "{}", ((part,) for part in parts))


def tries(made: Sequence[Try]) -> str:
    """The attempts that were made again, and the waits between them, for who does not see the bars."""
    told = [_try(one) for one in made[-TRIES_TOLD:]]
    return "; ".join(told if len(made) <= TRIES_TOLD else ["…", *told])


def _try(one: Try) -> str:
    took, wait = cells.duration(one.start, one.end), cells.length(one.wait)
    if not one.wait:
        return gettext("failed after %(took)s, the next one due at once") % {"took": took}
    return gettext("failed after %(took)s, the next one due %(wait)s later") % {"took": took, "wait": wait}


def until(wake_at: datetime) -> SafeString:
    return format_html(pgettext("waits", "until {}"), cells.moment(wake_at))
