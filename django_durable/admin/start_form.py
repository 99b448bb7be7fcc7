"""A form from a signature: the fields of the parameters, and how the run is started."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from django import forms
from django.contrib.admin.widgets import AdminTextInputWidget
from django.utils.translation import gettext_lazy as _

from ..core.names import NAME_MAX
from ..workflows.definition import Workflow
from ..workflows.options import StartOptions
from .errors import told
from .forms import ReasonForm
from .start_fields import EMPTY, SHOWN_MOST, VAR_KEYWORD, VAR_POSITIONAL, DateTime, parameters_of
from .text import cut

PREFIX = "input:"
"""Before the names of parameters, which may be those of options."""
TAGS_LENGTH_MOST = 1_000
_NAME = re.compile(r"\w+")


class StartForm(ReasonForm):
    """``key`` is made with the page, so that a form that is sent twice starts one run."""

    queue = forms.CharField(label=_("Queue"), required=False, max_length=100, widget=AdminTextInputWidget())
    priority = forms.IntegerField(label=_("Priority"), required=False, help_text=_("From -100 to 100, high first."))
    run_after = forms.DateTimeField(
        label=_("Not before"), required=False, widget=DateTime(), help_text=_("Empty for at once.")
    )
    idempotency_key = forms.CharField(
        label=_("Idempotency key"),
        required=False,
        max_length=NAME_MAX,
        widget=AdminTextInputWidget(),
        help_text=_("A run that was started under it with the same input is found, and no other is started."),
    )
    tags = forms.CharField(
        label=_("Tags"),
        required=False,
        max_length=TAGS_LENGTH_MOST,
        widget=AdminTextInputWidget(),
        help_text=_("With commas."),
    )
    key = forms.UUIDField(widget=forms.HiddenInput, initial=uuid4)

    OPTIONS = ("queue", "priority", "run_after", "idempotency_key", "tags")

    def __init__(
        self,
        workflow: Workflow[Any, Any],
        data: Any = None,
        *,
        filled: Mapping[str, Any] | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        """``filled``: what stands in the fields of parameters at first, by their names; ``options``: in the others."""
        super().__init__(data, initial=options)
        self._workflow = workflow
        self._parameters, first = parameters_of(workflow), filled or {}
        own = dict(self.fields)
        own["reason"].widget.attrs.pop("autofocus", None)
        own["queue"].widget.attrs["placeholder"] = workflow.options.queue
        own["priority"].widget.attrs["placeholder"] = str(workflow.options.priority)
        # What other runs of its key make of a start is the workflow's own affair.
        if workflow.options.meeting is not None:
            del own["idempotency_key"]
        self.fields = {PREFIX + one.name: one.field(first.get(one.name, EMPTY)) for one in self._parameters}
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
                self.add_error(PREFIX + one.name, one.help_text())
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
            given["tags"] = tags_of(given["tags"])
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


def tags_of(text: str) -> list[str]:
    return [tag.strip() for tag in text.split(",") if tag.strip()]
