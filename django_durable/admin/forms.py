"""The forms of the confirmation pages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NoReturn
from uuid import UUID, uuid4

from django import forms
from django.contrib.admin.widgets import AdminIntegerFieldWidget, AdminTextareaWidget, AdminTextInputWidget
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from ..core.names import NAME_MAX, PATH_MAX, check_name
from ..exceptions import InvalidName
from .errors import translated
from .finding import Place
from .once import MARK_MOST, mark
from .text import visible

ACTION_MOST = 5_000
"""Runs that one action takes; their ids travel through the confirmation page."""
ID_CHARACTERS = 37
BACKFILLED_MOST = 1_000
COUNT_MOST = 10**12
AWAITED_SHOWN = 20
"""Events that a run waits for, and that the form of one names."""


class _Instant(forms.DateTimeInput):
    """The browser's own field, to the minute."""

    input_type = "datetime-local"

    def __init__(self, attrs: dict[str, Any] | None = None) -> None:
        super().__init__(attrs=attrs, format="%Y-%m-%dT%H:%M")


class ReasonForm(forms.Form):
    """Why somebody does what the page asks about."""

    reason = forms.CharField(
        label=_("Reason"),
        required=False,
        max_length=1_000,
        widget=AdminTextInputWidget(attrs={"autofocus": True}),
        help_text=_("Kept in the audit, under your name."),
    )


class OnceForm(ReasonForm):
    """The reason, and from when on what was done is this form's doing: one that is sent twice acts once."""

    asked_after = forms.IntegerField(
        widget=forms.HiddenInput, required=False, min_value=0, max_value=MARK_MOST, initial=mark
    )


class SelectionForm(ReasonForm):
    """The reason, and exactly the runs that the page has named."""

    ids = forms.CharField(widget=forms.HiddenInput, max_length=ACTION_MOST * ID_CHARACTERS)

    field_order = ("ids", "reason")

    def clean_ids(self) -> list[UUID]:
        try:
            return [UUID(one) for one in self.cleaned_data["ids"].split(",")]
        except ValueError:
            raise ValidationError(_("That is not a list of runs.")) from None


class SweepForm(ReasonForm):
    """The reason, the newest run that is meant, and how far it has come where this is not the first request."""

    upto = forms.UUIDField(widget=forms.HiddenInput)
    place = forms.CharField(widget=forms.HiddenInput, required=False, max_length=ID_CHARACTERS)
    done = forms.IntegerField(widget=forms.HiddenInput, required=False, min_value=0, max_value=COUNT_MOST)
    held = forms.IntegerField(widget=forms.HiddenInput, required=False, min_value=0, max_value=COUNT_MOST)

    field_order = ("upto", "place", "done", "held", "reason")

    def clean_place(self) -> Place:
        try:
            return Place.read(self.cleaned_data["place"] or str(Place()))
        except ValueError:
            raise ValidationError(_("That is not a list of runs.")) from None

    def clean_done(self) -> int:
        return self.cleaned_data["done"] or 0

    def clean_held(self) -> int:
        return self.cleaned_data["held"] or 0


class BackfillForm(ReasonForm):
    """A window of the past, in the site's time zone, and how many runs it may start."""

    since = forms.DateTimeField(label=_("Since"), widget=_Instant(attrs={"autofocus": True}))
    until = forms.DateTimeField(label=_("Until"), widget=_Instant(), help_text=_("Included."))
    limit = forms.IntegerField(
        label=_("At most"),
        min_value=1,
        max_value=BACKFILLED_MOST,
        initial=100,
        widget=AdminIntegerFieldWidget(),
        help_text=_("Runs. The same window again goes on after them."),
    )

    field_order = ("since", "until", "limit", "reason")

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or self.cleaned_data
        if "since" in data and "until" in data and data["since"] > data["until"]:
            raise ValidationError(_("The window ends before it begins."))
        return data


class ForkForm(OnceForm):
    """The step that is to be done again, with all that comes after it."""

    from_step = forms.CharField(
        label=_("From step"),
        max_length=PATH_MAX,
        widget=AdminTextInputWidget(attrs={"autofocus": True}),
        help_text=_("Its path in the journal; or that of a branch, or of a turn of a loop."),
    )

    field_order = ("from_step", "reason", "asked_after")


class EventForm(ReasonForm):
    """An event: ``key`` is made with the page, so that a form that is sent twice sends one event."""

    name = forms.CharField(
        label=_("Event"), max_length=NAME_MAX, widget=AdminTextInputWidget(attrs={"autofocus": True})
    )
    payload = forms.CharField(
        label=_("Payload"),
        required=False,
        strip=False,
        widget=AdminTextareaWidget(attrs={"rows": 6, "spellcheck": "false"}),
        help_text=_("JSON; empty for none."),
    )
    key = forms.UUIDField(widget=forms.HiddenInput, initial=uuid4)

    field_order = ("name", "payload", "reason", "key")

    def __init__(self, data: Any = None, *, awaited: Sequence[str] = ()) -> None:
        """``awaited``: the events that the run waits for; the first is filled in."""
        super().__init__(data, initial={"name": next(iter(awaited), "")})
        if len(awaited) > 1:
            named = [visible(name) for name in awaited[:AWAITED_SHOWN]] + ["…"] * (len(awaited) > AWAITED_SHOWN)
            self.fields["name"].help_text = _("It waits for: %s.") % ", ".join(named)

    def clean_name(self) -> str:
        return name_of("event", self.cleaned_data["name"])

    def clean_payload(self) -> Any:
        text = self.cleaned_data["payload"]
        return json_of(text) if text.strip() else None


def name_of(what: str, name: str) -> str:
    """The name as it is kept; ``what`` it is for says the refusal. Raises ValidationError."""
    try:
        return check_name(what, name)
    except InvalidName as error:
        raise ValidationError(translated(error.reason)) from error


def json_of(text: str) -> Any:
    """What a person has written as JSON. Raises ValidationError."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ValidationError(_("This is not JSON: %(error)s"), params={"error": error}) from error


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)
