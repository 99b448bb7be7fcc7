"""What a project's own pages show of a run to its own users, and who may ask for it again.

Of values there is only how far the run is, as numbers: no input, no output, no message, no error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeGuard
from uuid import UUID

from django.core import signing
from django.db.models import OuterRef, Subquery
from django.db.models.functions import Left
from django.utils.module_loading import import_string

from .client.listing import EXCERPT
from .client.redacting import Withheld, redacted
from .conf import durable_settings
from .core.journal.states import TERMINAL, PayloadKind
from .core.payloads.codec import decode
from .exceptions import PayloadUndecodable
from .models import Payload, Run
from .store.database import Database

TOKEN_SECONDS = 24 * 60 * 60
SALT = "django_durable.watching"
NUMBER_MOST = 1e15


@dataclass(frozen=True, slots=True)
class Progress:
    """What ``ctx.progress`` said last; ``percent`` is None where there is no total."""

    done: float
    total: float | None
    percent: int | None


@dataclass(frozen=True, slots=True)
class Watched:
    """A run as a project's user may see it."""

    run: Run
    progress: Progress | None

    @property
    def is_over(self) -> bool:
        return self.run.status in TERMINAL

    @property
    def label(self) -> str:
        return str(self.run.get_status_display())

    def as_json(self) -> dict[str, Any]:
        run, progress = self.run, self.progress
        return {
            "id": str(run.pk),
            "workflow": run.workflow,
            "status": run.status,
            "progress": progress and {"done": progress.done, "total": progress.total, "percent": progress.percent},
            "started_at": _iso(run.started_at),
            "finished_at": _iso(run.finished_at),
            "is_over": self.is_over,
        }


def watched(run_id: UUID) -> Watched | None:
    """The run as it is now, in one query; None where there is none."""
    alias = Database().alias
    said = Payload.objects.using(alias).filter(run_id=OuterRef("pk"), kind=PayloadKind.PROGRESS)
    # A character more than is read, so that what was cut is known as such.
    text = Subquery(said.annotate(text=Left("data", EXCERPT + 1)).values("text")[:1])
    run = Run.objects.using(alias).annotate(said=text).filter(pk=run_id).first()
    return None if run is None else Watched(run, _progress(run, getattr(run, "said", None)))


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


# --- how far it is ---------------------------------------------------------------------------


def _progress(run: Run, text: str | None) -> Progress | None:
    """None for whatever is no progress: damaged data must not break a page."""
    if text is None or len(text) > EXCERPT:
        return None
    try:
        # What is kept from the staff is not for others.
        said = redacted(run, PayloadKind.PROGRESS.value, decode(text))
    except (PayloadUndecodable, Withheld):
        return None
    if not isinstance(said, Mapping):
        return None
    done, total = said.get("done"), said.get("total")
    if not _is_number(done):
        return None
    if not _is_number(total) or total <= 0:
        return Progress(done, None, None)
    return Progress(done, total, int(100 * min(max(done / total, 0), 1)))


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < NUMBER_MOST


# --- who may watch ---------------------------------------------------------------------------


def may_watch(user: Any, run: Run, token: str = "") -> bool:
    """Staff who may look at runs; whom ``DURABLE["MAY_WATCH"]`` lets, or without it who shows a token for this run."""
    if getattr(user, "is_active", False) and getattr(user, "is_staff", False) and _may_look(user):
        return True
    path = durable_settings().MAY_WATCH
    if path is not None:
        # Nothing but True: the coroutine of a function that is awaited by nobody would let everybody in.
        return import_string(path)(user, run) is True
    return bool(token) and _said_by(token) == _claim(user, run.pk)


def token_for(user: Any, run_id: UUID) -> str:
    """What lets this person, and nobody else, watch this run for ``TOKEN_SECONDS``; nothing where a setting decides."""
    return "" if durable_settings().MAY_WATCH else signing.dumps(_claim(user, run_id), salt=SALT)


def _may_look(user: Any) -> bool:
    return any(user.has_perm(f"django_durable.{what}_run") for what in ("view", "change"))


def _claim(user: Any, run_id: UUID) -> list[str]:
    """Who watches what. All who are not logged in are one: for them the token itself is the right."""
    return [str(run_id), "" if user is None or user.pk is None else str(user.pk)]


def _said_by(token: str) -> Any:
    try:
        return signing.loads(token, salt=SALT, max_age=TOKEN_SECONDS)
    except signing.BadSignature:
        return None
