"""What a run's code has said through ``ctx.log``, on its page."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet, TextField, Value
from django.db.models.functions import Cast, JSONObject
from django.utils.translation import gettext_lazy as _

from ..client.redacting import Withheld
from ..models import LogLine, Run
from ..store.database import Database
from . import cells
from .claims import instant
from .journal import Listing
from .payloads import readable_line
from .text import cut, visible

LINE = "%line"
"""Lines are read with the payloads, and are no kind of these."""
LINES_SHOWN = 100
LEVEL_NAME_MOST = 20
LEVELS = {
    logging.CRITICAL: ("critical", _("critical")),
    logging.ERROR: ("error", _("error")),
    logging.WARNING: ("warning", _("warning")),
    logging.INFO: ("info", _("info")),
    logging.DEBUG: ("debug", _("debug")),
}
"""Highest first."""


@dataclass(slots=True, frozen=True)
class LogRow:
    """``note`` says why there is no ``message`` to be seen."""

    at: str
    level: str
    scope: str
    message: str = ""
    note: str = ""


def log_as_text(run: Run) -> QuerySet[Any, Any]:
    """Its newest lines: rows of LINE, a text and the line's number, to be read together with other texts of the run.
    Only for those who may view payloads."""
    lines = LogLine.objects.using(Database().alias).filter(run_id=run.pk)
    newest = lines.order_by("-number").values("number")[: LINES_SHOWN + 1]
    row = JSONObject(at="at", level="level", scope="scope", message="message", attempt="attempt")
    texts: QuerySet[Any, Any] = lines.filter(number__in=newest).annotate(kind=Value(LINE), text=Cast(row, TextField()))
    return texts.values_list("kind", "text", "number")


def log_of(run: Run, texts: Iterable[tuple[int, str]]) -> Listing:
    """As the page shows them, newest first. ``texts``: of ``log_as_text`` the number and the text of each."""
    newest = sorted(texts, reverse=True)
    return Listing.of((_row(run, **json.loads(text)) for _number, text in newest), LINES_SHOWN)


def _row(run: Run, *, at: str, level: int, scope: str, message: str, attempt: int | None) -> LogRow:
    place = cells.moment(instant(at)), _pill(level), visible(scope)
    try:
        return LogRow(*place, message=visible(readable_line(run, message, attempt)))
    except Withheld as refusal:
        return LogRow(*place, note=str(refusal))


def _pill(level: int) -> str:
    """The level as a word: of one between the usual ones what logging calls it, in the colour of the one below."""
    kind = next((kind for least, (kind, _label) in LEVELS.items() if level >= least), "debug")
    label = LEVELS[level][1] if level in LEVELS else cut(visible(logging.getLevelName(level)), LEVEL_NAME_MOST)
    return cells.pill(kind, label)
