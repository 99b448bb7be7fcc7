"""The verbs that operators have on runs: who may, which runs, what is done, and that it is written down."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.base_user import AbstractBaseUser
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from ..client import verbs
from ..core.journal.states import LIVE, PayloadKind, Status
from ..exceptions import RunLocked
from ..models import Payload, Run
from ..store.database import Database
from ..store.locking import brief_lock, lock_parents, locked
from ..store.transitions import IS_RESUMABLE
from .errors import told

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

AT_ONCE = 500


NOTHING = _("Nothing was done: none of them is such that it could be.")


@dataclass(frozen=True)
class RunVerb:
    """``question`` and ``done`` take a ``count``. ``eligible`` are the runs it may be asked of, ``happened`` those that
    were eligible under our lock and to which it was done."""

    name: str
    permission: str
    label: StrOrPromise
    question: Any
    consequence: StrOrPromise
    done: Any
    eligible: Q
    happened: Q
    act: Callable[..., object]
    nothing: StrOrPromise = NOTHING
    """What is said where it was done to none."""
    locks_parents: bool = False
    """Whether ``act`` does, which has to come before our own locks."""
    is_told_by_row: bool = True
    """Whether a run's own row says if it is eligible, or leads to the one entry that does."""

    @property
    def of_its_row(self) -> Q:
        """As much of ``eligible`` as can be asked of each of very many runs."""
        return self.eligible if self.is_told_by_row else Q()

    def perform(self, run_ids: Iterable[UUID], *, user: AbstractBaseUser, reason: str) -> int:
        """Do it to those that are still eligible; to how many it was done. Audit and LogEntry come with it.

        Raises RunLocked; what was done before, to other runs, stands.
        """
        db = Database()
        ids, count = sorted(run_ids), 0
        for start in range(0, len(ids), AT_ONCE):
            some = ids[start : start + AT_ONCE]
            with brief_lock(db, some):
                done = self._perform(db, some, user.get_username(), reason)
                write_down(user, done, self.label, reason)
            count += len(done)
        return count

    def _perform(self, db: Database, ids: list[UUID], actor: str, reason: str) -> list[Run]:
        runs = Run.objects.using(db.alias)
        if self.locks_parents:
            lock_parents(db, ids)
        # Locked first (in the engine's order): only so are those that we write down those that we changed.
        found = [run.pk for run in locked(db, runs.filter(self.eligible, pk__in=ids))]
        self.act(found, reason=reason, actor=actor)
        return list(runs.filter(self.happened, pk__in=found))


def carry_out(verb: RunVerb, run_ids: Iterable[UUID], model_admin: Any, request: HttpRequest, reason: str) -> None:
    """Perform the verb for the user who asks, and tell what came of it."""
    try:
        count = verb.perform(run_ids, user=request.user, reason=reason)  # type: ignore[arg-type]
    except RunLocked as error:
        model_admin.message_user(request, told(error), messages.ERROR)
        return
    tell(verb, request, count)


def tell(verb: RunVerb, request: HttpRequest, count: int) -> None:
    """To how many it was done, or why to none."""
    if count:
        messages.success(request, verb.done % {"count": count})
    else:
        messages.warning(request, verb.nothing)


def write_down(user: AbstractBaseUser, rows: Sequence[Model], label: StrOrPromise, reason: str = "") -> None:
    """In the history that Django keeps; the engine's own audit is written by the verb."""
    if rows:
        message = f"{label}: {reason}" if reason else str(label)
        LogEntry.objects.log_actions(user.pk, rows, CHANGE, message)


def send_event(run: Run, *, name: str, payload: Any, key: str, user: AbstractBaseUser, reason: str) -> None:
    """Send it, with an audit entry. Raises IllegalTransition, InvalidName, PayloadError,
    TooManyEvents."""
    db = Database()
    with db.transaction():
        verbs.send_event(run.pk, name, payload, key, reason=reason, actor=user.get_username())
        write_down(user, [run], _("Send event %s") % name, reason)


def fork(run: Run, *, from_step: str, user: AbstractBaseUser, reason: str) -> UUID:
    """Fork it, with audit entries; the new run's id. Raises CannotFork, RunNotFound."""
    with Database().transaction():
        new = verbs.fork(run.pk, from_step, reason=reason, actor=user.get_username())
        write_down(user, [run], _("Fork from %s") % from_step, reason)
    return new


def eligible(verb: RunVerb, runs: QuerySet[Run]) -> QuerySet[Run]:
    return runs.filter(verb.eligible)


CANCEL = RunVerb(
    name="cancel",
    permission="cancel_run",
    label=_("Cancel"),
    question=ngettext_lazy("Cancel this run?", "Cancel these %(count)d runs?", "count"),
    consequence=_(
        "A run that has not started ends at once, a running one when its step is over. "
        "Its child runs are cancelled with it, unless they were started as detached."
    ),
    done=ngettext_lazy("%(count)d run was asked to stop.", "%(count)d runs were asked to stop.", "count"),
    # One that is blocked before it could undo what it did ends as it is when it is asked once more.
    eligible=Q(status__in=sorted(LIVE), cancel_requested_at=None) | Q(status=Status.BLOCKED),
    happened=Q(cancel_requested_at__isnull=False),
    act=verbs.cancel_runs,
)
PAUSE = RunVerb(
    name="pause",
    permission="pause_run",
    label=_("Pause"),
    question=ngettext_lazy("Pause this run?", "Pause these %(count)d runs?", "count"),
    consequence=_(
        "A run rests until somebody resumes it: at once, or when its step is over. "
        "Its times and deadline go on meanwhile, and its child runs."
    ),
    done=ngettext_lazy("%(count)d run was asked to pause.", "%(count)d runs were asked to pause.", "count"),
    eligible=Q(status__in=[Status.SCHEDULED, Status.QUEUED, Status.WAITING], cancel_requested_at=None)
    | Q(status=Status.RUNNING, cancel_requested_at=None, pause_requested_at=None),
    happened=Q(status=Status.PAUSED) | Q(pause_requested_at__isnull=False),
    act=verbs.pause_runs,
)
RESUME = RunVerb(
    name="resume",
    permission="resume_run",
    label=_("Resume"),
    question=ngettext_lazy("Resume this run?", "Resume these %(count)d runs?", "count"),
    consequence=_(
        "A run goes on from its journal: what succeeded is not done again, what failed gets all of its attempts anew. "
        "A child run whose parent has already seen it fail stays as it is."
    ),
    done=ngettext_lazy("%(count)d run goes on.", "%(count)d runs go on.", "count"),
    nothing=_(
        "Nothing goes on: it does so already, or its parent knows how it ended. Then the parent is what to resume."
    ),
    eligible=IS_RESUMABLE,
    # One that was paused before its time had come is scheduled again, one that had not paused yet just goes on.
    happened=Q(status__in=[Status.QUEUED, Status.SCHEDULED, Status.RUNNING]),
    act=verbs.resume_runs,
    locks_parents=True,
)
RERUN = RunVerb(
    name="rerun",
    permission="rerun_run",
    label=_("Run again"),
    question=ngettext_lazy("Run this again?", "Run these %(count)d again?", "count"),
    consequence=_("A new run begins at once, with the same input and options. The old one stays as it is."),
    done=ngettext_lazy("%(count)d run was started anew.", "%(count)d runs were started anew.", "count"),
    nothing=_("Nothing was started: the input is kept no longer."),
    eligible=Q(pk__in=Payload.objects.filter(kind=PayloadKind.INPUT).values("run_id")),
    happened=Q(),
    act=verbs.rerun_runs,
    is_told_by_row=False,
)
