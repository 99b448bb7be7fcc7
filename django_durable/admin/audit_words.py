"""What the engine writes down beside a verb, in the language of who looks: it is stored in English, and what a person
has said comes after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.translation import gettext_noop as _
from django.utils.translation import pgettext_lazy

from ..models import Audit, Schedule
from .errors import translated_start

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

DETAILS = (
    # Of schedules.
    _("run %(run)s"),
    _("1 run, %(since)s"),
    _("%(count)s runs, %(since)s to %(until)s"),
    _("the code says so"),
    _("in the code no more"),
    # Of runs: which other one was made of it, or it of which; and why the engine cancelled it.
    _("of %(run)s from %(step)s"),
    _("%(run)s from %(step)s"),
    _("of %(run)s"),
    _("its branch lost a race"),
    _("schedule %(name)s fired again"),
    _("replaced by run %(run)s of its singleton workflow"),
    _("replaced by run %(run)s under the idempotency key %(key)s"),
)

COLUMNS: dict[str, StrOrPromise] = {
    "name": pgettext_lazy("audit", "name"),
    "expression": pgettext_lazy("audit", "expression"),
    "timezone": pgettext_lazy("audit", "timezone"),
    "overlap": pgettext_lazy("audit", "overlap"),
    "catch_up": pgettext_lazy("audit", "catch up"),
    "jitter": pgettext_lazy("audit", "jitter"),
    "input": pgettext_lazy("audit", "input"),
}
"""Of a schedule: what it was, or became."""
CHOICES: dict[str, dict[str, StrOrPromise]] = {
    "overlap": dict(Schedule.OVERLAP_CHOICES),
    "catch_up": dict(Schedule.CATCH_UP_CHOICES),
}
DEFINING = frozenset({"create", "change", "remove"})


def reason_of(entry: Audit) -> str:
    """Not yet fit to be looked at: a person's words are among it, and names. Who says just what the engine would is
    translated too."""
    said = translated_start(entry.reason, DETAILS)
    if said != entry.reason or entry.verb not in DEFINING:
        return said
    definition, colon, more = said.partition(": ")
    return ", ".join(map(_column, definition.split(", "))) + colon + more


def _column(text: str) -> str:
    name, blank, value = text.partition(" ")
    return f"{COLUMNS.get(name, name)}{blank}{CHOICES.get(name, {}).get(value, value)}"
