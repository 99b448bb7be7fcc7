"""What was held and released lately: a hold's own row is gone when it is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..models import Audit, Hold
from ..store.database import Database
from . import cells
from .journal import VERBS, Listing
from .text import visible

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

SHOWN = 20


def held_lately() -> Listing:
    """Who held or released what, when and why, newest first; as dicts. In one query."""
    entries = Audit.objects.using(Database().alias).filter(run=None, schedule=None)
    # By the moment, for which there is no index: that of the ids leads past all that was asked of millions of runs.
    latest = entries.order_by("-at", "-pk")[: SHOWN + 1]
    return Listing.of((_row(entry) for entry in latest), SHOWN)


def _row(entry: Audit) -> dict[str, StrOrPromise]:
    is_queue = entry.queue is not None
    return {
        "at": cells.moment(entry.at),
        "verb": VERBS.get(entry.verb, visible(entry.verb)),
        "kind": dict(Hold.KINDS)[Hold.QUEUE if is_queue else Hold.WORKFLOW],
        "name": cells.name(entry.queue or entry.workflow or ""),
        "actor": visible(entry.actor),
        "reason": visible(entry.reason),
    }
