"""The form of a start with the input of an earlier run in it: what of that may be seen, and what a form can hold."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from django import forms
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from ..client.redacting import Withheld, is_redacting
from ..core.journal.states import PayloadKind
from ..core.payloads.codec import decode, encode
from ..exceptions import PayloadError, PayloadUndecodable
from ..models import Payload, Run, Tag
from ..store.database import Database
from ..workflows.definition import Workflow
from ..workflows.signature import pydantic
from .excerpts import excerpt_of, with_excerpt
from .payloads import readable
from .start_fields import VAR_POSITIONAL, Parameter, is_same, parameters_of
from .start_form import TAGS_LENGTH_MOST, StartForm, tags_of
from .text import cut, visible

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

INPUT_MOST = 100_000
"""Characters of a stored input that is put into a form."""
TAGS_MOST, TEXT_MOST = 200, 1_000
Input = dict[str, Any]
"""The values of the parameters by their names, as they are stored."""

FILLED = _("The input is that of run {}.")
GONE = _("The input of run {} is not filled in: it is not kept any more.")
LONG = _("The input of run {} is not filled in: it is too long for a form.")
REDACTED = _("The input of run {} is not filled in: it is redacted.")
UNREADABLE = _("The input of run {} is not filled in: it cannot be read.")
LEFT_OUT = _("Not filled in, because no form holds it as it was: %s.")

_LINE_END = re.compile("\r\n?")


class _Unfilled(Exception):
    def __init__(self, why: StrOrPromise) -> None:
        self.why = why


def form_like(workflow: Workflow[Any, Any], run: Run, link: str) -> tuple[StartForm, str]:
    """The form with the input, queue, priority and tags of the run, and what is to be told of that. ``link``: to the
    run. Only for those who may view payloads."""
    options, given = _options_of(workflow, run), Input()
    told: StrOrPromise = FILLED
    try:
        given = _input_of(run)
    except _Unfilled as unfilled:
        told = unfilled.why
    found = {one.name: _first(one, workflow, given) for one in parameters_of(workflow) if one.name in given}
    held = {name: first for name, (is_held, first) in found.items() if is_held}
    note = format_html(str(told), link)
    if lost := [name for name in given if name not in held] + ([] if "tags" in options else [str(_("Tags"))]):
        note = format_html("{} {}", note, str(LEFT_OUT) % cut(visible(", ".join(lost)), TEXT_MOST))
    return StartForm(workflow, filled=held, options=options), note


def _options_of(workflow: Workflow[Any, Any], run: Run) -> dict[str, Any]:
    """Those that are not as the workflow gives them anyway; ``tags`` where their field can hold them."""
    options: dict[str, Any] = {}
    if run.queue != workflow.options.queue:
        options["queue"] = run.queue
    if run.priority != workflow.options.priority:
        options["priority"] = run.priority
    tags = Tag.objects.using(Database().alias).filter(run_id=run.pk).order_by("name")
    names = list(tags.values_list("name", flat=True)[:TAGS_MOST])
    text = ", ".join(names)
    if len(names) < TAGS_MOST and len(text) <= TAGS_LENGTH_MOST and tags_of(text) == names:
        options["tags"] = text
    return options


# --- what was stored -------------------------------------------------------------------------


def _input_of(run: Run) -> Input:
    """Raises _Unfilled."""
    rows = Payload.objects.using(Database().alias).filter(run_id=run.pk, kind=PayloadKind.INPUT)
    row = with_excerpt(rows, "data", INPUT_MOST).values("data_text", "data_size").first()
    excerpt = excerpt_of(row, "data") if row else None
    if excerpt is None:
        raise _Unfilled(GONE)
    if excerpt.is_cut:
        raise _Unfilled(LONG)
    try:
        if is_redacting() and _is_changed(run, excerpt.text):
            raise _Unfilled(REDACTED)
        stored = decode(excerpt.text)
    except PayloadUndecodable:
        raise _Unfilled(UNREADABLE) from None
    if not isinstance(stored, dict) or not all(isinstance(name, str) for name in stored):
        raise _Unfilled(UNREADABLE)
    return stored


def _is_changed(run: Run, text: str) -> bool:
    """Whether people see another value than the stored one. Nothing of that is filled in then: of what stays in the
    place of a secret, a run would be started."""
    try:
        return encode(readable(run, "input", text)) != encode(decode(text))
    except (Withheld, PayloadError):
        return True


# --- what a form can hold --------------------------------------------------------------------


def _first(one: Parameter, workflow: Workflow[Any, Any], given: Input) -> tuple[bool, Any]:
    """What stands in the parameter's field at first, and whether the workflow would be given the old value where nobody
    changes that."""
    value = given[one.name]
    try:
        first = _plain(value) if one.is_json else value
        sent = _sent(one, first)
        return is_same(sent, value) or is_same(_checked(one, workflow, given, sent), value), first
    except Exception:
        # Classes of the project may raise anything, and what they cannot do is no reason to have no form.
        return False, None


def _plain(value: Any) -> Any:
    """The value, or what pydantic makes of one for which JSON has no word."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return pydantic.TypeAdapter(type(value)).dump_python(value, mode="json")
    return value


def _sent(one: Parameter, first: Any) -> Any:
    """What becomes of it on its way through the page and the browser. Raises ValidationError, or UnicodeEncodeError for
    what no page can hold."""
    field = one.field(first)
    sent = field.prepare_value(field.initial)
    if not isinstance(field, forms.ChoiceField):
        sent = field.widget.format_value(sent)
    if isinstance(sent, str):
        sent.encode()
        sent = _LINE_END.sub("\n", sent)
    return one.value_of(field.clean(sent))


def _checked(one: Parameter, workflow: Workflow[Any, Any], given: Input, sent: Any) -> Any:
    """What the annotation makes of it. Raises InvalidInput, PayloadError."""
    if one.kind is VAR_POSITIONAL:
        return tuple(sent)
    known = {each.name for each in parameters_of(workflow)}
    others = {name: value for name, value in given.items() if name in known}
    return decode(workflow.signature.write(workflow.name, (), {**others, one.name: sent}))[one.name]
