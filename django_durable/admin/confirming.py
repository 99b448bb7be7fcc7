"""The page between a button and its effect: how many runs, which, and why. And that an answer counts once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from django.contrib.auth.base_user import AbstractBaseUser
from django.db.models import Q
from django.forms import Form
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils.translation import gettext_lazy as _

from ..models import Audit, Run
from ..models.run import STATUS_LABELS
from ..store.auditing import ACTOR_MAX
from ..store.database import Database
from ..store.locking import brief_lock, locked
from . import cells
from .verbs import AT_ONCE, RERUN, RunVerb

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

RUNS_NAMED = 20
ASKED_AFTER = "asked_after"
DIGITS_MOST = 18


class Asked(Protocol):
    """What a confirmation page asks about: a verb, or another thing that is done to runs."""

    @property
    def name(self) -> str: ...
    @property
    def label(self) -> StrOrPromise: ...
    @property
    def question(self) -> Any: ...
    @property
    def consequence(self) -> StrOrPromise: ...
    @property
    def eligible(self) -> Q: ...
    @property
    def of_its_row(self) -> Q: ...


@dataclass(frozen=True)
class Question:
    """What a confirmation page asks. ``hidden`` are fields that make the second request reach the same place."""

    verb: Asked
    runs: Sequence[Run]
    form: Form
    back: str
    hidden: Mapping[str, str]
    left_out: int = 0


def ask(model_admin: Any, request: HttpRequest, question: Question) -> TemplateResponse:
    counted = Counter(run.status for run in question.runs)
    context = {
        "question": question,
        "form": question.form,
        "consequence": question.verb.consequence,
        "hidden": {**question.hidden, **mark_of(question.verb)}.items(),
        "back": question.back,
        "submit": _("Yes, do it"),
        "is_dangerous": question.verb.name == "cancel",
        "count": len(question.runs),
        "runs": [named(run) for run in question.runs[:RUNS_NAMED]],
        "unnamed": max(len(question.runs) - RUNS_NAMED, 0),
        "counts": [
            (cells.pill(status, label), counted[status]) for status, label in STATUS_LABELS.items() if counted[status]
        ],
    }
    title = question.verb.question % {"count": len(question.runs)}
    return page(model_admin, request, "admin/django_durable/run/confirm.html", title, context)


def named(run: Run) -> dict[str, Any]:
    """A run as a line that links to its page."""
    return {"pk": run.pk, "pills": cells.run_pills(run), "workflow": cells.name(run.workflow)}


def page(
    model_admin: Any, request: HttpRequest, template: str, title: StrOrPromise, context: Mapping[str, Any]
) -> TemplateResponse:
    """A page of ours in the frame of the admin site that it is asked of."""
    site = model_admin.admin_site
    request.current_app = site.name
    frame = {**site.each_context(request), "title": title, "opts": model_admin.opts}
    return TemplateResponse(request, template, {**frame, **context})


# --- an answer that comes twice --------------------------------------------------------------


def mark_of(verb: Asked) -> dict[str, str]:
    """A field of a question from which ``once`` knows later what was done since it was asked: the audit's last entry.

    For the verb that may be done to a run any number of times only; of the others the run's state says enough.
    """
    if verb.name != RERUN.name:
        return {}
    last = Audit.objects.using(Database().alias).order_by("-pk").values_list("pk", flat=True).first()
    return {ASKED_AFTER: str(last or 0)}


def once(verb: RunVerb, request: HttpRequest) -> RunVerb:
    """The verb as the answer to the question that this request answers."""
    mark = request.POST.get(ASKED_AFTER, "")
    if verb.name != RERUN.name or not mark.isascii() or not mark.isdecimal() or len(mark) > DIGITS_MOST:
        return verb
    return _Once(**{field.name: getattr(verb, field.name) for field in fields(verb)}, asked_after=int(mark))


@dataclass(frozen=True)
class _Once(RunVerb):
    """Done to each run once, however often the question is answered: a double click, a form that is sent anew because
    no answer came. Who asks again finds what was done."""

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
