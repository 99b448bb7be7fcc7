"""The tag that links runs to a row of the project: found again from the row, whatever became of it."""

from __future__ import annotations

from collections.abc import Iterable

from django.apps import apps
from django.core.exceptions import ValidationError
from django.db.models import CompositePrimaryKey, Model

from ..core.names import check_name
from .model_ref import ModelRef


def tag_for(row: Model | ModelRef) -> str:
    """``app_label.model:pk``, for ``using(tags=[tag_for(order)])`` and ``Run.objects.tagged(tag_for(order))``.

    It is the same for a row and a reference to it, through a proxy or not. Raises ValueError for a row that has no
    primary key yet or one of several columns (InvalidName for one that no tag can hold), LookupError for a reference to
    a model that is gone.
    """
    if row.pk is None:
        raise ValueError(f"{row!r} has not been saved: no run can be linked to it.")
    options = (apps.get_model(row.label) if isinstance(row, ModelRef) else row)._meta
    options = (options.concrete_model or options.model)._meta
    if isinstance(options.pk, CompositePrimaryKey):
        raise ValueError(f"The key of {options.label} has several columns: give its runs a tag of your own.")
    # As the column holds it: an instance has what it was made with, a UUID without its dashes for instance.
    return check_name("tag", f"{options.label_lower}:{options.pk.to_python(row.pk)}")


def tags_of(given: Iterable[object]) -> list[str]:
    """The tags of those of these values that are a ``ModelRef``; none for one that no tag can be made of."""
    found = []
    for value in given:
        if isinstance(value, ModelRef):
            try:
                found.append(tag_for(value))
            except (ValueError, TypeError, LookupError, ValidationError):
                continue
    return found
