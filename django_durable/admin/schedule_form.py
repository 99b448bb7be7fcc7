"""The form of a schedule of the operators'; what code declares is changed in the code."""

from __future__ import annotations

from collections.abc import Collection
from itertools import count
from typing import Any

from django import forms
from django.conf import settings
from django.contrib.admin.widgets import AdminTextareaWidget, AdminTextInputWidget
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from ..conf import durable_settings
from ..core.names import NAME_MAX
from ..core.schedules.cron import EXPRESSION_MAX, JITTER_MAX, Cron
from ..core.schedules.zones import load_zone
from ..exceptions import DurableError, InvalidSchedule
from ..models import Schedule
from ..workflows.options import default_name
from ..workflows.registry import workflows
from .errors import told, translated
from .forms import ReasonForm, json_of, name_of
from .schedule_preview import ZONE_MAX
from .text import visible

WHEN = frozenset({"workflow", "name", "expression", "timezone"})
COLUMNS = ("name", "expression", "timezone", "overlap", "catch_up", "jitter")
SEEN_MAX = 64


class ScheduleForm(ReasonForm):
    """What a schedule does. A stored input is never shown: it may be secret; it can be replaced."""

    name = forms.CharField(
        label=_("Name"),
        max_length=NAME_MAX,
        widget=AdminTextInputWidget(),
        help_text=_("Tells the schedules of one workflow apart."),
    )
    expression = forms.CharField(
        label=_("Expression"),
        max_length=EXPRESSION_MAX,
        widget=AdminTextInputWidget(attrs={"spellcheck": "false", "autocapitalize": "none", "autocomplete": "off"}),
        help_text=_("Minute, hour, day of month, month, day of week: 30 7 * * mon-fri is at 07:30 on weekdays."),
    )
    timezone = forms.CharField(
        label=_("Time zone"),
        max_length=ZONE_MAX,
        initial=lambda: settings.TIME_ZONE,
        widget=AdminTextInputWidget(attrs={"spellcheck": "false", "list": "durable-zones"}),
        help_text=_("Whose clocks the expression means: Europe/Berlin, UTC."),
    )
    overlap = forms.ChoiceField(
        label=_("Overlap"),
        choices=Schedule.OVERLAP_CHOICES,
        help_text=_("What a due instant does while the run of an earlier one is not over."),
    )
    catch_up = forms.ChoiceField(
        label=_("Catch-up"),
        choices=Schedule.CATCH_UP_CHOICES,
        help_text=_("Which of the instants that were missed while no worker ran are made up for."),
    )
    jitter = forms.FloatField(
        label=_("Jitter"), min_value=0, max_value=JITTER_MAX, initial=0, help_text=_("Seconds of delay at most.")
    )
    input = forms.CharField(
        label=_("Input"),
        required=False,
        strip=False,
        widget=AdminTextareaWidget(attrs={"rows": 4, "spellcheck": "false"}),
        help_text=_("Of each run: keyword arguments as a JSON object."),
    )

    field_order: tuple[str, ...] = (
        *("workflow", "name", "expression", "timezone", "input"),
        *("overlap", "catch_up", "jitter", "reason"),
    )

    def __init__(self, *args: Any, workflow: str = "", **more: Any) -> None:
        """``workflow``: whose schedule it is, where that is no matter of choice."""
        super().__init__(*args, **more)
        self._workflow = workflow
        self._name = self.initial.get("name")
        del self.fields["reason"].widget.attrs["autofocus"]

    def clean_name(self) -> str:
        return name_of("schedule", self.cleaned_data["name"])

    def clean_timezone(self) -> str:
        key: str = self.cleaned_data["timezone"]
        try:
            load_zone(key)
        except ValueError:
            raise ValidationError(_("There is no such time zone.")) from None
        return key

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or self.cleaned_data
        if "expression" in data:
            try:
                Cron(data["expression"], data.get("timezone", "UTC"))
            except InvalidSchedule as error:
                self.add_error("expression", visible(translated(error.reason)))
        workflow = data.get("workflow", self._workflow)
        if data.get("name", self._name) != self._name and data["name"] in names_in_code(workflow):
            # Its row would stand in the place of the code's, which then fires nothing.
            self.add_error("name", _("The code of this workflow declares a schedule of that name."))
        if workflow and data.get("input", "").strip():
            self._clean_input(workflow, data)
        return data

    def _clean_input(self, name: str, data: dict[str, Any]) -> None:
        """As it is stored, checked against the workflow's signature."""
        try:
            data["input"] = _stored(name, json_of(data["input"]))
        except ValidationError as error:
            self.add_error("input", error)

    @property
    def on_when(self) -> list[forms.BoundField]:
        """The fields above the preview."""
        return [field for field in self.visible_fields() if field.name in WHEN]

    @property
    def on_what(self) -> list[forms.BoundField]:
        return [field for field in self.visible_fields() if field.name not in WHEN]

    @property
    def columns(self) -> dict[str, Any]:
        """Of a valid form. An input that was not given stays as it is."""
        data = self.cleaned_data
        given = {"input": data["input"]} if data.get("input", "").strip() else {}
        return {name: data[name] for name in COLUMNS} | given


def _stored(name: str, arguments: Any) -> str:
    if not isinstance(arguments, dict):
        raise ValidationError(_("Keyword arguments are a JSON object."))
    workflow = workflows().get(name)
    if workflow is None:
        raise ValidationError(_("This site does not know the workflow, and cannot check its input."))
    try:
        return workflow.signature.write(workflow.name, (), arguments, limit=durable_settings().MAX_PAYLOAD_BYTES)
    except DurableError as error:
        raise ValidationError(told(error)) from error


class NewScheduleForm(ScheduleForm):
    workflow = forms.ChoiceField(label=_("Workflow"), choices=lambda: _known())
    enabled = forms.BooleanField(label=_("Enabled"), required=False, initial=True)

    field_order = (*ScheduleForm.field_order[:-1], "enabled", "reason")

    def clean(self) -> dict[str, Any]:
        data = super().clean()
        if "workflow" in data and "input" in data and not data["input"].strip():
            # Without one it has to do without arguments.
            self._clean_input(data["workflow"], data | {"input": "{}"})
        return data

    @property
    def columns(self) -> dict[str, Any]:
        return {**super().columns, "workflow": self.cleaned_data["workflow"], "enabled": self.cleaned_data["enabled"]}


class OldScheduleForm(ScheduleForm):
    """``seen`` is how the schedule stood when somebody was given this form."""

    seen = forms.CharField(widget=forms.HiddenInput, required=False, max_length=SEEN_MAX)

    def __init__(self, *args: Any, may_start: bool, **more: Any) -> None:
        """``may_start``: whether this person may have runs started with an input that they choose."""
        super().__init__(*args, **more)
        if not may_start:
            del self.fields["input"]
            return
        self.fields["input"].help_text = _(
            "Of each run: keyword arguments as a JSON object. Left empty, the stored one stays, which is not shown."
        )


def _known() -> list[tuple[str, str]]:
    return [(name, visible(name)) for name in sorted({workflow.name for workflow in workflows().values()})]


def names_in_code(name: str) -> Collection[str]:
    """Of the schedules that the code of this workflow declares, as far as this site knows it."""
    workflow, unnamed = workflows().get(name), count(1)
    crons = workflow.options.crons if workflow else []
    return [cron.name or default_name(name, next(unnamed)) for cron in crons]
