"""Stored values and errors for people: cut, and shown whatever is wrong with them. The one place that decodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pprint import pformat
from typing import Any

from django.db.models import F, QuerySet, TextField
from django.db.models.functions import Cast, Left, Length
from django.utils.translation import gettext_lazy as _

from ..client.listing import EXCERPT, Excerpt
from ..core.journal.annotations import read_notes
from ..core.payloads.codec import decode
from ..exceptions import PayloadUndecodable
from .text import cut, cut_front, visible

ERROR_EXCERPT = 32_768
"""Of an encoded error, which holds the traceback with escapes: a longer one is shown as the text that it is."""


@dataclass(slots=True, frozen=True)
class Shown:
    """A value as text of at most ``EXCERPT`` characters; ``note`` says what is not to be seen in it."""

    text: str
    note: str = ""


@dataclass(slots=True, frozen=True)
class ShownError:
    """What was raised. ``raw`` stands in for the other three where the stored text cannot be read."""

    type: str = ""
    message: str = ""
    traceback: str = ""
    raw: Shown | None = None


def with_excerpt(rows: QuerySet[Any], column: str, most: int = EXCERPT) -> QuerySet[Any, Any]:
    """The rows with the beginning of a column of text and its length: never more of it leaves the database."""
    text, size = Left(Cast(F(column), TextField()), most), Length(column)
    annotated: QuerySet[Any, Any] = rows.annotate(**{f"{column}_text": text, f"{column}_size": size})
    return annotated


def excerpt_of(row: Mapping[str, Any], column: str) -> Excerpt | None:
    """What ``with_excerpt`` found of the column in a row of ``values()``; None where it is null."""
    text = row[f"{column}_text"]
    return None if text is None else Excerpt(text, row[f"{column}_size"])


def shown(excerpt: Excerpt | None) -> Shown | None:
    """The value as Python writes it; a long one as the beginning of the stored JSON."""
    if excerpt is None:
        return None
    if excerpt.is_cut:
        return Shown(visible(cut(excerpt.text, EXCERPT)), _("%s characters in all") % f"{excerpt.size:,}")
    try:
        return Shown(cut(_written(decode(excerpt.text)), EXCERPT))
    except PayloadUndecodable as error:
        return Shown(visible(cut(excerpt.text, EXCERPT)), visible(str(error)))


def shown_error(excerpt: Excerpt | None) -> ShownError | None:
    """Type, message and the end of the traceback."""
    if excerpt is None:
        return None
    found = None if excerpt.is_cut else decoded(excerpt.text)
    if not isinstance(found, Mapping):
        return ShownError(raw=shown(excerpt))
    parts = {key: visible(str(found.get(key) or "")) for key in ("type", "message", "traceback")}
    return ShownError(
        type=cut(parts["type"], 200),
        message=cut(parts["message"], EXCERPT),
        traceback=cut_front(parts["traceback"], EXCERPT),
    )


def shown_notes(excerpt: Excerpt | None) -> list[tuple[str, Shown | None]]:
    """Names and values of annotations; where they cannot be told apart, the stored text under no name."""
    if excerpt is None:
        return []
    notes = {} if excerpt.is_cut else read_notes(excerpt.text)
    return [(visible(name), shown(Excerpt(text, len(text)))) for name, text in notes.items()] or [("", shown(excerpt))]


def decoded(text: str) -> Any:
    """The value, or None where the text cannot be read."""
    try:
        return decode(text)
    except PayloadUndecodable:
        return None


def _written(value: Any) -> str:
    """As a literal of Python, which spells out what is not printable; types of the project may have any ``repr``."""
    try:
        return visible(pformat(value, width=80, sort_dicts=False))
    except Exception as error:
        raise PayloadUndecodable(f"its repr() raised {type(error).__name__}") from error
