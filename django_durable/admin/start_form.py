"""A form from a signature: a field for each parameter, of the kind that its annotation asks for."""

from __future__ import annotations

import inspect
import json
import re
import types
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin
from uuid import UUID, uuid4

from django import forms
from django.contrib.admin.widgets import AdminTextareaWidget, AdminTextInputWidget
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from ..core.names import NAME_MAX
from ..workflows.definition import Workflow
from ..workflows.options import StartOptions
from .errors import told
from .forms import ReasonForm, json_of
from .text import cut, visible

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

PREFIX = "input:"
"""Before the names of parameters, which may be those of options."""
SHOWN_MOST = 100
LINES_SHOWN = 10
EMPTY = inspect.Parameter.empty
VAR_POSITIONAL, VAR_KEYWORD = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
_NAME = re.compile(r"\w+")


class _Date(forms.DateInput):
    input_type = "date"

    def __init__(self) -> None:
        super().__init__(format="%Y-%m-%d")


class _DateTime(forms.DateTimeInput):
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
        place = next((str(place) for place, value in enumerate(values) if _is_same(value, initial)), None)
        return forms.TypedChoiceField(
            choices=choices,
            coerce=lambda chosen: values[int(chosen)],
            empty_value=None,
            required=required,
            initial=place,
            **given,
        )

    return make


def _is_same(value: Any, other: Any) -> bool:
    return type(value) is type(other) and value == other


PLAIN: Mapping[Any, Callable[..., forms.Field]] = {
    str: lambda **given: TextField(**given),
    int: lambda **given: forms.IntegerField(**given),
    float: lambda **given: forms.FloatField(widget=forms.NumberInput(attrs={"step": "any"}), **given),
    Decimal: lambda **given: forms.DecimalField(widget=forms.NumberInput(attrs={"step": "any"}), **given),
    date: lambda **given: forms.DateField(widget=_Date(), **given),
    datetime: lambda **given: forms.DateTimeField(widget=_DateTime(), **given),
    UUID: lambda **given: forms.UUIDField(**given),
    bool: _choices([True, False], [_("yes"), _("no")]),
}


class _Parameter:
    """A parameter and how it is asked for."""

    def __init__(self, parameter: inspect.Parameter, annotation: Any) -> None:
        self.name, self.kind, self.default = parameter.name, parameter.kind, parameter.default
        self.type, self.may_be_none = _unwrapped(annotation)
        if self.kind in (VAR_POSITIONAL, VAR_KEYWORD):
            self.type, self.default = Any, EMPTY

    @property
    def is_variable(self) -> bool:
        return self.kind in (VAR_POSITIONAL, VAR_KEYWORD)

    def field(self) -> forms.Field:
        has_default = self.default is not EMPTY
        make, default = _maker(self.type), self.default if has_default else None
        # An empty text is a text, but one has to be given where there is neither a default nor None.
        given: dict[str, Any] = {
            "label": visible(self.name),
            "required": not (has_default or self.may_be_none or self.is_variable or self.type is str),
            "initial": default,
            "help_text": self._help(),
        }
        if make is not None:
            return make(**given)
        given["initial"] = _as_json(default) if has_default else ""
        return JsonField(**given)

    def _help(self) -> Any:
        if self.kind is VAR_POSITIONAL:
            return _("JSON: a list of further values.")
        if self.kind is VAR_KEYWORD:
            return _("JSON: an object of further values by name.")
        if _maker(self.type) is None:
            return _("JSON; empty for the default.") if self.default is not EMPTY else _("JSON.")
        return _("Empty for none.") if self.may_be_none else ""

    def value_of(self, cleaned: Any) -> Any:
        """What the workflow is given; EMPTY: nothing."""
        if self.is_variable:
            return cleaned if cleaned is not EMPTY else () if self.kind is VAR_POSITIONAL else {}
        if _maker(self.type) is None:
            return None if cleaned is EMPTY and self.default is EMPTY else cleaned
        if cleaned is None or (cleaned == "" and self.may_be_none):
            # A field that was emptied says None where that is a value.
            return None if self.may_be_none else EMPTY
        return cleaned


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


class StartForm(ReasonForm):
    """``key`` is made with the page, so that a form that is sent twice starts one run."""

    queue = forms.CharField(label=_("Queue"), required=False, max_length=100, widget=AdminTextInputWidget())
    priority = forms.IntegerField(label=_("Priority"), required=False, help_text=_("From -100 to 100, high first."))
    run_after = forms.DateTimeField(
        label=_("Not before"), required=False, widget=_DateTime(), help_text=_("Empty for at once.")
    )
    idempotency_key = forms.CharField(
        label=_("Idempotency key"),
        required=False,
        max_length=NAME_MAX,
        widget=AdminTextInputWidget(),
        help_text=_("A run that was started under it with the same input is found, and no other is started."),
    )
    tags = forms.CharField(
        label=_("Tags"), required=False, max_length=1_000, widget=AdminTextInputWidget(), help_text=_("With commas.")
    )
    key = forms.UUIDField(widget=forms.HiddenInput, initial=uuid4)

    OPTIONS = ("queue", "priority", "run_after", "idempotency_key", "tags")

    def __init__(self, workflow: Workflow[Any, Any], data: Any = None) -> None:
        super().__init__(data)
        self._workflow = workflow
        self._parameters = [_Parameter(*one) for one in workflow.signature.parameters()]
        own = dict(self.fields)
        own["reason"].widget.attrs.pop("autofocus", None)
        own["queue"].widget.attrs["placeholder"] = workflow.options.queue
        own["priority"].widget.attrs["placeholder"] = str(workflow.options.priority)
        # What other runs of its key make of a start is the workflow's own affair.
        if workflow.options.meeting is not None:
            del own["idempotency_key"]
        self.fields = {PREFIX + one.name: one.field() for one in self._parameters}
        self.fields |= {name: own[name] for name in (*self.OPTIONS, "reason", "key") if name in own}

    @property
    def input_fields(self) -> list[forms.BoundField]:
        return [self[PREFIX + one.name] for one in self._parameters]

    @property
    def option_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in (*self.OPTIONS, "reason") if name in self.fields]

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or self.cleaned_data
        for one in self._parameters:
            value = data.get(PREFIX + one.name, EMPTY)
            wanted = list if one.kind is VAR_POSITIONAL else dict
            if one.is_variable and value is not EMPTY and not isinstance(value, wanted):
                self.add_error(PREFIX + one.name, one._help())
        for name, value in self.options().items():
            try:
                StartOptions(**{name: value})
            except (TypeError, ValueError) as error:
                self.add_error(name if name in self.fields else None, cut(told(error), SHOWN_MOST * 3))
        return data

    def options(self) -> dict[str, Any]:
        """For ``using``."""
        data = self.cleaned_data
        given = {name: data[name] for name in self.OPTIONS if data.get(name) not in (None, "")}
        if "tags" in given:
            given["tags"] = [tag.strip() for tag in given["tags"].split(",") if tag.strip()]
        if self._workflow.options.meeting is None and "key" in data:
            given.setdefault("idempotency_key", f"admin-{data['key'].hex}")
        return given

    def given(self) -> tuple[list[Any], dict[str, Any]]:
        """The arguments. By name where that can be, so that what was left empty has its default."""
        values = {one.name: one.value_of(self.cleaned_data[PREFIX + one.name]) for one in self._parameters}
        has_more = any(one.kind is VAR_POSITIONAL and values[one.name] for one in self._parameters)
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for one in self._parameters:
            value = values[one.name]
            if one.kind is VAR_POSITIONAL:
                args += value
            elif one.kind is VAR_KEYWORD:
                kwargs |= {name: each for name, each in value.items() if name not in kwargs}
            elif one.kind is inspect.Parameter.POSITIONAL_ONLY or (
                has_more and one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
            ):
                args.append(one.default if value is EMPTY else value)
            elif value is not EMPTY:
                kwargs[one.name] = value
        return args, kwargs

    def add_problem(self, problem: str) -> None:
        """What the workflow's signature says, at the field that it is about."""
        named = _NAME.match(problem)
        field = PREFIX + named.group() if named else ""
        self.add_error(field if field in self.fields else None, problem)
