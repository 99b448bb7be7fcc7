"""The page between a button and its effect: how many runs, which, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from django.db.models import Q
from django.forms import Form
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils.translation import gettext_lazy as _

from ..core.journal.states import Status
from ..models import Run
from ..models.run import STATUS_LABELS
from . import cells
from .once import mark_of

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

RUNS_NAMED = 20
ENDS_AS_IT_IS = _("A blocked run that was asked to stop before ends as it is: effects that it has not undone stay.")


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
        "consequence": consequence_of(question.verb, question.runs),
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


def consequence_of(verb: Asked, runs: Iterable[Run] | None = None) -> str:
    """``runs`` are all that it is asked about; None where nobody knows them all."""
    is_asked_again = runs is None or any(run.status == Status.BLOCKED and run.cancel_requested_at for run in runs)
    return f"{verb.consequence} {ENDS_AS_IT_IS}" if verb.name == "cancel" and is_asked_again else str(verb.consequence)


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
