"""What happened in a run: its entries, its events, what was asked of it. Bounded; payloads only on request."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from django.db.models import Case, F, Q, QuerySet, TextField, Value, When
from django.db.models.functions import Cast, JSONObject, Left
from django.http import QueryDict
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from ..core.flow.undoing import UNDO
from ..core.journal.log import FailedAttempt
from ..core.journal.paths import above
from ..core.journal.states import EntryStatus, Kind
from ..core.kinds.turns import TURN
from ..core.names import PATH_MAX
from ..models import Audit, Event, JournalEntry, LogLine, Run, Schedule
from ..models.run import STATUS_LABELS
from ..store.database import Database
from . import cells
from .audit_words import reason_of
from .claims import instant
from .excerpts import excerpt_of, with_excerpt, with_parsed
from .payloads import Shown, shown
from .text import visible
from .whole_value import Addresses

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

ENTRIES_SHOWN = 250
ENTRIES_NEAR = 25
"""Entries of a timeline that begins at one of them, to look at it closely."""
OTHERS_SHOWN = 100
"""Events, children and audit entries on a run's page."""
VALUE_EXCERPT = 300
"""Characters of a value in the journal; a page has hundreds of them."""
SEQ_MOST = 2**31 - 1
LAST = "last"
"""What an address says in place of the number of the last entry, whichever that is by now."""
SCOPE, ATTEMPT, AUDIT = "%scope", "%attempt", "%audit"
"""What is read with the payloads, and is no kind of these."""

VERBS = {
    "cancel": pgettext_lazy("audit", "cancel"),
    "pause": pgettext_lazy("audit", "pause"),
    "resume": pgettext_lazy("audit", "resume"),
    "rerun": pgettext_lazy("audit", "rerun"),
    "fork": pgettext_lazy("audit", "fork"),
    "send_event": pgettext_lazy("audit", "send event"),
    "start": pgettext_lazy("audit", "start"),
    "found": pgettext_lazy("audit", "found"),
    "fire": pgettext_lazy("audit", "fire"),
    "backfill": pgettext_lazy("audit", "backfill"),
    "create": pgettext_lazy("audit", "create"),
    "change": pgettext_lazy("audit", "change"),
    "enable": pgettext_lazy("audit", "enable"),
    "disable": pgettext_lazy("audit", "disable"),
    "remove": pgettext_lazy("audit", "remove"),
    "hold": pgettext_lazy("audit", "hold"),
    "release": pgettext_lazy("audit", "release"),
}
BEFORE: dict[str, StrOrPromise] = {
    **{status.value: label for status, label in STATUS_LABELS.items()},
    "enabled": _("enabled"),
    "disabled": _("disabled"),
}
"""How a run or a schedule stood."""

_OTHER_RUN = re.compile("(?:of )?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?=$|: | from )")

THE_RUN = ""
"""Where the log has the attempts of the run as a whole: no entry has this path."""
HEAD_MOST = 120
"""Characters of a line that say when the next attempt is due; what follows is the error."""

COLUMNS = (
    "seq", "path", "kind", "status", "attempts", "started_at", "finished_at", "wake_at", "awaits", "decision",
)  # fmt: skip
TIMES = ("started_at", "finished_at", "wake_at")


@dataclass(slots=True, frozen=True)
class Listing:
    """Rows of a table, and whether there are more than it shows."""

    rows: list[Any]
    is_cut: bool

    @classmethod
    def of(cls, rows: Iterable[Any], most: int) -> Listing:
        """``rows`` were asked for with one more than ``most``."""
        found = list(rows)
        return cls(found[:most], len(found) > most)


@dataclass(slots=True, frozen=True)
class Window:
    """The part of a journal that is looked at: ``most`` entries from ``first`` on, or where ``until`` is given those
    that end with it, of the scope ``inside``, or ``is_alone`` the entry there."""

    first: int = 0
    inside: str = ""
    most: int = ENTRIES_SHOWN
    is_alone: bool = False
    until: int = 0

    @classmethod
    def of(cls, query: QueryDict) -> Window:
        """As the address says; what makes no sense in it is left out."""
        inside, alone = (query.get(name, "").replace("\x00", "")[:PATH_MAX] for name in ("in", "at"))
        until = SEQ_MOST if query.get("until") == LAST else _number(query.get("until", ""))
        first = 0 if until else _number(query.get("from", ""))
        most = ENTRIES_NEAR if first and "near" in query else ENTRIES_SHOWN
        return cls(first, alone or inside, most, is_alone=bool(alone), until=until)

    @property
    def is_all(self) -> bool:
        return not (self.first or self.inside or self.until)

    @property
    def is_last(self) -> bool:
        """Whether nothing comes after it."""
        return self.until == SEQ_MOST

    @property
    def place(self) -> dict[str, int | str]:
        """What an address says of where it begins, or ends; nothing where that is the beginning of what is shown."""
        if self.until:
            return {"until": LAST if self.is_last else self.until}
        return {"from": self.first} if self.first else {}

    @property
    def condition(self) -> Q:
        """Of the scope everything that has its path above it, and what stands beside that: its undo, say. Calls of
        one name with keys, ``name[key]``, are in no scope that has it."""
        found = Q(seq__lte=self.until) if self.until else Q(seq__gte=self.first)
        if self.is_alone:
            found &= Q(path__in=[self.inside, self.inside + UNDO])
        elif self.inside:
            inside = Q(path__in=[self.inside, self.inside + TURN, self.inside + UNDO])
            found &= inside | Q(path__startswith=f"{self.inside}/") | Q(path__startswith=f"{self.inside}[")
        return found


def _number(text: str) -> int:
    return min(int(text), SEQ_MOST) if text.isdecimal() and len(text) < 20 else 0


class Try(NamedTuple):
    """An attempt that was made again: from when to when it was, and how many seconds later the next one was due."""

    start: datetime
    end: datetime
    wait: float = 0.0


@dataclass(slots=True, frozen=True)
class EventRow:
    name: str
    sent: str
    taken: str
    taken_by: str
    key: str
    payload: Shown | None


@dataclass(slots=True, frozen=True)
class AuditRow:
    at: str
    verb: StrOrPromise
    actor: str
    reason: str
    status_before: StrOrPromise


# --- entries -----------------------------------------------------------------------------------


def entries_of(run: Run, window: Window, *, with_values: bool) -> Listing:
    """The entries of the window in the journal's order, as dicts. Cut is its end, or where it has one its beginning."""
    journal = JournalEntry.objects.using(Database().alias).filter(run_id=run.pk)
    # The paths first: what is long is fetched of those entries only that are shown.
    order = "-seq" if window.until else "seq"
    paths = journal.filter(window.condition).order_by(order).values("path")[: window.most + 1]
    entries = with_parsed(_decided(journal.filter(path__in=paths)), "error", VALUE_EXCERPT)
    columns = [*COLUMNS, "error_text", "error_size"]
    if with_values:
        entries = with_excerpt(entries, "value", VALUE_EXCERPT)
        columns += ["value_text", "value_size"]
    found = Listing.of(entries.order_by(order).values(*columns), window.most)
    return Listing(found.rows[::-1], found.is_cut) if window.until else found


def scopes_as_text(run: Run, rows: Sequence[dict[str, Any]]) -> QuerySet[Any, Any]:
    """The scopes in which these entries lie and whose own entries are not among them: rows of SCOPE, a text and the
    entry's number, to be read together with other texts of the run. No query where there are none."""
    known = {row["path"] for row in rows}
    missing = {path for row in rows for path in above(row["path"])} - known
    journal = JournalEntry.objects.using(Database().alias).filter(run_id=run.pk, path__in=sorted(missing))
    return _as_text(_decided(journal), SCOPE, "seq", *COLUMNS)


def scopes_of(texts: Iterable[tuple[int, str]]) -> list[dict[str, Any]]:
    """As ``entries_of`` has them. ``texts``: of ``scopes_as_text`` the number and the text of each."""
    found = [json.loads(text) for _number, text in sorted(texts)]
    return [row | {name: row[name] and instant(row[name]) for name in TIMES} for row in found]


def _as_text(rows: QuerySet[Any], kind: str, number: str, *columns: str) -> QuerySet[Any, Any]:
    row = JSONObject(**dict(zip(columns, columns, strict=True)))
    texts: QuerySet[Any, Any] = rows.annotate(of=Value(kind), text=Cast(row, TextField()))
    return texts.order_by().values_list("of", "text", number)


def _decided(entries: QuerySet[JournalEntry]) -> QuerySet[JournalEntry]:
    """With the beginning of what a race has come to: the winner's name, which is part of paths and no secret."""
    won = When(kind=Kind.RACE, status=EntryStatus.SUCCEEDED, then=Left(Cast(F("value"), TextField()), 2 * PATH_MAX))
    return entries.annotate(decision=Case(won, default=None, output_field=TextField()))


def attempts_as_text(run: Run, rows: Sequence[dict[str, Any]]) -> QuerySet[Any, Any]:
    """The attempts at these entries, and of the run, that have been made again, as far as the run's log has them: rows
    of ATTEMPT, as those of ``scopes_as_text``."""
    paths = [row["path"] for row in rows if _may_be_made_again(row)]
    if run.attempt > 1:
        paths.append(THE_RUN)
    lines = LogLine.objects.using(Database().alias).filter(run_id=run.pk, attempt__isnull=False, scope__in=paths)
    return _as_text(
        lines.annotate(head=Left("message", HEAD_MOST)), ATTEMPT, "number", "scope", "at", "seconds", "head"
    )


def _may_be_made_again(row: Mapping[str, Any]) -> bool:
    # A poll counts anew whenever it has asked.
    return bool(row["attempts"] > 1 or row["status"] == EntryStatus.RETRYING or row["kind"] == Kind.POLL)


def attempts_of(texts: Iterable[tuple[int, str]]) -> dict[str, list[Try]]:
    """By path, those of the run under THE_RUN. ``texts``: of ``attempts_as_text`` the number and the text of each."""
    found: dict[str, list[Try]] = {}
    for _number, text in sorted(texts):
        row = json.loads(text)
        over, told = instant(row["at"]), FailedAttempt.read(row["head"])
        one = Try(over - timedelta(seconds=row["seconds"] or 0), over, told.wait if told else 0.0)
        found.setdefault(row["scope"], []).append(one)
    return found


# --- events and audit ----------------------------------------------------------------------------


def events_of(run: Run, addresses: Addresses, *, with_payloads: bool) -> tuple[Listing, list[dict[str, Any]]]:
    """The latest, newest first: as the table shows them, and as they are."""
    events = Event.objects.using(Database().alias).filter(run_id=run.pk).order_by("-pk")
    columns = ["pk", "name", "sent_at", "consumed_at", "consumed_by", "idempotency_key"]
    if with_payloads:
        events = with_excerpt(events, "payload")
        columns += ["payload_text", "payload_size"]
    listing = Listing.of(events.values(*columns)[: OTHERS_SHOWN + 1], OTHERS_SHOWN)
    rows = [_event(run, row, addresses, with_payloads) for row in listing.rows]
    return Listing(rows, listing.is_cut), listing.rows


def _event(run: Run, row: dict[str, Any], addresses: Addresses, with_payloads: bool) -> EventRow:
    more = addresses.of("event", id=row["pk"])
    return EventRow(
        name=cells.name(row["name"]),
        sent=cells.moment(row["sent_at"]),
        taken=cells.moment(row["consumed_at"]),
        taken_by=visible(row["consumed_by"]),
        key=visible(row["idempotency_key"]),
        payload=shown(run, "event", excerpt_of(row, "payload"), more) if with_payloads else None,
    )


def audit_as_text(run: Run) -> QuerySet[Any, Any]:
    """The latest verbs: rows of AUDIT, as those of ``scopes_as_text``."""
    entries = Audit.objects.using(Database().alias).filter(run_id=run.pk)
    latest = entries.filter(pk__in=entries.order_by("-pk").values("pk")[: OTHERS_SHOWN + 1])
    return _as_text(latest, AUDIT, "pk", "at", "verb", "actor", "reason", "status_before")


def audit_of(texts: Iterable[tuple[int, str]], addresses: Addresses) -> Listing:
    """Newest first. ``texts``: of ``audit_as_text`` the number and the text of each."""
    newest = [json.loads(text) for _number, text in sorted(texts, reverse=True)]
    entries = (Audit(**row | {"at": instant(row["at"])}) for row in newest)
    return Listing.of((_audit(entry, addresses) for entry in entries), OTHERS_SHOWN)


def audit_of_schedule(schedule: Schedule) -> Listing:
    """Likewise, also of a row that was there before under the same name."""
    entries = Audit.objects.using(Database().alias).filter(run=None, workflow=schedule.workflow, schedule=schedule.name)
    latest = entries.order_by("-pk")[: OTHERS_SHOWN + 1]
    return Listing.of((_audit(entry) for entry in latest), OTHERS_SHOWN)


def _audit(entry: Audit, addresses: Addresses | None = None) -> AuditRow:
    return AuditRow(
        at=cells.moment(entry.at),
        verb=VERBS.get(entry.verb) or visible(entry.verb),
        actor=visible(entry.actor),
        reason=_reason(entry, addresses),
        status_before=BEFORE.get(entry.status_before) or visible(entry.status_before),
    )


def _reason(entry: Audit, addresses: Addresses | None) -> str:
    """What was said; that of a verb which made one run of another begins with the other one, which is linked."""
    said = reason_of(entry)
    found = _OTHER_RUN.match(entry.reason) if addresses and entry.verb in ("rerun", "fork") else None
    if addresses is None or found is None:
        return visible(said)
    before, run_id, after = said.partition(found[1])
    return format_html("{}{}{}", before, addresses.link_to(UUID(run_id)), visible(after))
