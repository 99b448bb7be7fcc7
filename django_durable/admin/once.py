"""An answer that comes twice counts once: a double click, a form that is sent anew because no answer came.

A question carries the number of the audit's last entry; what this person has done since then is the answer's doing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any
from uuid import UUID

from django.contrib.auth.base_user import AbstractBaseUser
from django.db.models import QuerySet
from django.http import HttpRequest

from ..models import Audit, Run
from ..store.auditing import ACTOR_MAX
from ..store.database import Database
from ..store.locking import brief_lock, locked
from .verbs import AT_ONCE, RERUN, RunVerb

ASKED_AFTER = "asked_after"
DIGITS_MOST = 18
MARK_MOST = 10**DIGITS_MOST - 1

_RUN = "([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"


def mark() -> int:
    """The number of the audit's last entry; 0 where it has none."""
    return Audit.objects.using(Database().alias).order_by("-pk").values_list("pk", flat=True).first() or 0


def mark_of(verb: Any) -> dict[str, str]:
    """The field of a question by which ``once`` knows what was done since.

    For the verb that may be done to a run any number of times only; of the others the run's state says enough.
    """
    return {ASKED_AFTER: str(mark())} if verb.name == RERUN.name else {}


def once(verb: RunVerb, request: HttpRequest) -> RunVerb:
    """The verb as the answer to the question that this request answers."""
    asked_after = request.POST.get(ASKED_AFTER, "")
    if verb.name != RERUN.name or not asked_after.isascii() or not asked_after.isdecimal():
        return verb
    if len(asked_after) > DIGITS_MOST:
        return verb
    return _Once(**{field.name: getattr(verb, field.name) for field in fields(verb)}, asked_after=int(asked_after))


def made_since(asked_after: int | None, user: AbstractBaseUser, entries: QuerySet[Audit], told: str) -> UUID | None:
    """The run that this person has made since the question, if so: by the latest of ``entries`` whose reason begins as
    ``told`` says, with {} for the run. To be asked under the lock of what it is made of: the first answer may be there.
    """
    if asked_after is None:
        return None
    before, after = map(re.escape, told.split("{}", 1))
    since = entries.using(Database().alias).filter(actor=user.get_username()[:ACTOR_MAX], pk__gt=asked_after)
    for reason in since.order_by("-pk").values_list("reason", flat=True):
        if found := re.match(f"{before}{_RUN}{after}(?=:|$)", reason):
            return UUID(found[1])
    return None


@dataclass(frozen=True)
class _Once(RunVerb):
    """Done to each run once, however often the question is answered. Who asks again finds what was done."""

    asked_after: int = 0

    def perform(self, run_ids: Iterable[UUID], *, user: AbstractBaseUser, reason: str) -> int:
        db, ids, count = Database(), sorted(run_ids), 0
        for start in range(0, len(ids), AT_ONCE):
            some = ids[start : start + AT_ONCE]
            with brief_lock(db, some):
                # Before we look what was done: the first answer may be at it.
                locked(db, Run.objects.filter(pk__in=some))
                done = self._done(db, some, user.get_username())
                rest = [run_id for run_id in some if run_id not in done]
                count += len(done) + super().perform(rest, user=user, reason=reason)
        return count

    def _done(self, db: Database, ids: Sequence[UUID], actor: str) -> set[UUID]:
        """To which of these this person has done it since the question."""
        told = Audit.objects.using(db.alias).filter(
            run_id__in=ids, verb=self.name, actor=actor[:ACTOR_MAX], pk__gt=self.asked_after
        )
        return set(told.values_list("run_id", flat=True))
