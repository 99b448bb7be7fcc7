"""A field for each parameter of a workflow, of the kind that its annotation asks for."""

from __future__ import annotations

import inspect
import json
import types
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin
from uuid import UUID

from django import forms
from django.contrib.admin.widgets import AdminTextareaWidget
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from ..workflows.definition import Workflow
from .forms import json_of
from .text import cut, visible

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

SHOWN_MOST = 100
LINES_SHOWN = 10
EMPTY = inspect.Parameter.empty
VAR_POSITIONAL, VAR_KEYWORD = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD


class _Date(forms.DateInput):
    input_type = "date"

    def __init__(self) -> None:
        super().__init__(format="%Y-%m-%d")


class DateTime(forms.DateTimeInput):
    input_type = "datetime-local"

    def __init__(self) -> None:
        super().__init__(attrs={"step": "1"}, format="%Y-%m-%dT%H:%M:%S")


class JsonField(forms.CharField):
    """Any JSON. Left empty it is ``EMPTY``: null is a value."""

    def __init__(self, **given: Any) -> None:
        widget = AdminTextareaWidget(attrs={"rows": 4, "spellcheck": "false"})
        super().__init__(strip=False, widget=widget, **given)

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value) or ""
        return json_of(text) if text.strip() else EMPTY

    def validate(self, value: Any) -> None:
        # What is required is looked at before it is read: null, 0 and [] are values.
        pass

    def clean(self, value: Any) -> Any:
        if self.required and not (value or "").strip():
            raise ValidationError(self.error_messages["required"], code="required")
        return super().clean(value)


class TextField(forms.CharField):
    """A text as it is, of one line or of several."""

    def __init__(self, **given: Any) -> None:
        # Of an <input> a browser drops the newlines, those of a default as well.
        lines = str(given.get("initial") or "").count("\n") + 1
        widget = AdminTextareaWidget(attrs={"rows": min(lines, LINES_SHOWN)})
        super().__init__(strip=False, widget=widget, **given)

    def to_python(self, value: Any) -> str:
        # Browsers send each of them as two characters.
        return str(super().to_python(value)).replace("\r\n", "\n")


def _choices(values: list[Any], labels: Sequence[StrOrPromise]) -> Callable[..., forms.Field]:
    """A choice of these values, by their place: as text two of them may be alike."""

    def make(*, required: bool, initial: Any, **given: Any) -> forms.Field:
        choices = [(str(place), visible(cut(str(label), SHOWN_MOST))) for place, label in enumerate(labels)]
        if not required or initial is None:
            choices.insert(0, ("", "---------"))
        place = next((str(place) for place, value in enumerate(values) if is_same(value, initial)), None)
        return forms.TypedChoiceField(
            choices=choices,
            coerce=lambda chosen: values[int(chosen)],
            empty_value=None,
            required=required,
            initial=place,
            **given,
        )

    return make


def is_same(value: Any, other: Any) -> bool:
    """1, 1.0 and True are three. Raises whatever a class of the project raises when it compares."""
    return type(value) is type(other) and bool(value == other)


PLAIN: Mapping[Any, Callable[..., forms.Field]] = {
    str: lambda **given: TextField(**given),
    int: lambda **given: forms.IntegerField(**given),
    float: lambda **given: forms.FloatField(widget=forms.NumberInput(attrs={"step": "any"}), **given),
    Decimal: lambda **given: forms.DecimalField(widget=forms.NumberInput(attrs={"step": "any"}), **given),
    date: lambda **given: forms.DateField(widget=_Date(), **given),
    datetime: lambda **given: forms.DateTimeField(widget=DateTime(), **given),
    UUID: lambda **given: forms.UUIDField(**given),
    bool: _choices([True, False], [_("yes"), _("no")]),
}


class Parameter:
    """A parameter and how it is asked for."""

    def __init__(self, parameter: inspect.Parameter, annotation: Any) -> None:
        self.name, self.kind, self.default = parameter.name, parameter.kind, parameter.default
        self.type, self.may_be_none = _unwrapped(annotation)
        if self.kind in (VAR_POSITIONAL, VAR_KEYWORD):
            self.type, self.default = Any, EMPTY

    @property
    def is_variable(self) -> bool:
        return self.kind in (VAR_POSITIONAL, VAR_KEYWORD)

    @property
    def is_json(self) -> bool:
        return _maker(self.type) is None

    def field(self, filled: Any = EMPTY) -> forms.Field:
        """``filled``: what stands in it at first, in place of the default."""
        has_default = self.default is not EMPTY
        make, first = _maker(self.type), self.default if filled is EMPTY else filled
        # An empty text is a text, but one has to be given where there is neither a default nor None.
        given: dict[str, Any] = {
            "label": visible(self.name),
            "required": not (has_default or self.may_be_none or self.is_variable or self.type is str),
            "initial": None if first is EMPTY else first,
            "help_text": self.help_text(),
        }
        if make is not None:
            return make(**given)
        given["initial"] = "" if first is EMPTY else _as_json(first)
        return JsonField(**given)

    def help_text(self) -> Any:
        if self.kind is VAR_POSITIONAL:
            return _("JSON: a list of further values.")
        if self.kind is VAR_KEYWORD:
            return _("JSON: an object of further values by name.")
        if self.is_json:
            return _("JSON; empty for the default.") if self.default is not EMPTY else _("JSON.")
        return _("Empty for none.") if self.may_be_none else ""

    def value_of(self, cleaned: Any) -> Any:
        """What the workflow is given; EMPTY: nothing."""
        if self.is_variable:
            return cleaned if cleaned is not EMPTY else () if self.kind is VAR_POSITIONAL else {}
        if self.is_json:
            return None if cleaned is EMPTY and self.default is EMPTY else cleaned
        if cleaned is None or (cleaned == "" and self.may_be_none):
            # A field that was emptied says None where that is a value.
            return None if self.may_be_none else EMPTY
        return cleaned


def parameters_of(workflow: Workflow[Any, Any]) -> list[Parameter]:
    return [Parameter(*one) for one in workflow.signature.parameters()]


def _unwrapped(annotation: Any) -> tuple[Any, bool]:
    """The type without what is said about it, and whether None will do instead."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, types.UnionType):
        others = [one for one in get_args(annotation) if one is not type(None)]
        if len(others) < len(get_args(annotation)):
            return (_unwrapped(others[0])[0] if len(others) == 1 else Any), True
    return annotation, False


def _maker(kind: Any) -> Callable[..., forms.Field] | None:
    """What makes a field for a type; None: it is asked for as JSON."""
    if get_origin(kind) is Literal:
        values = list(get_args(kind))
        return _choices(values, [str(value) for value in values])
    if isinstance(kind, type) and issubclass(kind, Enum):
        members = list(kind)
        return _choices(members, [member.name for member in members])
    try:
        return PLAIN.get(kind)
    except TypeError:  # An annotation may be anything.
        return None


def _as_json(value: Any) -> str:
    """As the field shows it; nothing where JSON has no word for it: the default holds then."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return ""
