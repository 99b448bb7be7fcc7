"""How much of a long text is read for a page: never more of it leaves the database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import Case, F, IntegerField, QuerySet, TextField, Value, When
from django.db.models.functions import Cast, Left

from ..client.listing import EXCERPT, Excerpt, Size

ERROR_EXCERPT = 32_768
"""Of an encoded error, which holds the traceback with escapes: a longer one is shown as the text that it is."""


def with_excerpt(rows: QuerySet[Any], column: str, most: int = EXCERPT) -> QuerySet[Any, Any]:
    """The rows with the beginning of a column of text and its length: never more of it leaves the database."""
    text, size = Left(Cast(F(column), TextField()), most), Size(column)
    annotated: QuerySet[Any, Any] = rows.annotate(**{f"{column}_text": text, f"{column}_size": size})
    return annotated


def excerpt_of(row: Mapping[str, Any], column: str) -> Excerpt | None:
    """What ``with_excerpt`` found of the column in a row of ``values()``; None where it is null."""
    text = row[f"{column}_text"]
    return None if text is None else Excerpt(text, row[f"{column}_size"])


def with_parsed(rows: QuerySet[Any], column: str, beginning: int) -> QuerySet[Any, Any]:
    """As ``with_excerpt``, of a text that is parsed where it is short enough for it: of at most ``ERROR_EXCERPT``
    characters it comes whole, of more the ``beginning`` and one more, by which it is seen to be cut.

    All of an error, although little of it is shown: a part cannot be parsed, nor redacted, and what of its traceback is
    shown is the end. The engine writes up to 30,000 characters of one, beside its notes and causes.
    """
    size = f"{column}_size"
    most = Case(
        When(**{f"{size}__lte": ERROR_EXCERPT}, then=Value(ERROR_EXCERPT)),
        default=Value(beginning + 1),
        output_field=IntegerField(),
    )
    annotated: QuerySet[Any, Any] = rows.annotate(**{size: Size(column)}).annotate(
        **{f"{column}_text": Left(F(column), most)}
    )
    return annotated
