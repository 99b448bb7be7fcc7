"""Sentences for people: a text that can be translated, and apart from it what stands in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.utils.formats import number_format
from django.utils.timezone import localtime
from django.utils.translation import gettext

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

NAMED_MAX = 5
"""Steps or events that one sentence names."""

Seen = Callable[[str, Any], Any]
"""What may be seen of a run's value: its kind and the value itself → that, or something in its place."""


class Hidden(Exception):
    """Raised by a ``Seen``: who looks may see nothing in the place of such a value."""


@dataclass(slots=True, frozen=True)
class Stored:
    """A value of the run's own. ``kind`` is the word by which who redacts knows it, ``as_text`` makes text of what may
    be seen of it."""

    kind: str
    value: Any
    as_text: Callable[[Any], str] = str


@dataclass(slots=True, frozen=True)
class Sentence:
    """``values`` by the names of the placeholders in ``text``; None is a time that is not known.

    Made where things are looked up, told where somebody looks: in the language and the time zone that are active then.
    ``bare`` is the text without the run's own values, for who may see nothing of them.
    """

    text: StrOrPromise
    values: Mapping[str, str | int | datetime | Stored | None] = field(default_factory=dict)
    bare: StrOrPromise = ""

    def told(self, seen: Seen) -> str:
        """Raises what ``seen`` does, but not Hidden where there is a ``bare`` text."""
        try:
            return _filled(self.text, self.values, seen)
        except Hidden:
            if not self.bare:
                raise
        others = {name: value for name, value in self.values.items() if not isinstance(value, Stored)}
        return _filled(self.bare, others, seen)


def _filled(text: StrOrPromise, values: Mapping[str, Any], seen: Seen) -> str:
    return str(text) % {name: _word(value, seen) for name, value in values.items()}


def _word(value: Any, seen: Seen) -> str:
    match value:
        case Stored(kind, stored, as_text):
            return as_text(seen(kind, stored))
        case datetime():
            return f"{localtime(value):%Y-%m-%d %H:%M:%S %Z}"
        case None:
            return gettext("an unknown time")
        case int():
            return number_format(value, force_grouping=True)
        case _:
            return str(value)


def _as_it_is(_kind: str, value: Any) -> Any:
    return value


@dataclass(slots=True, frozen=True, repr=False)
class Why:
    """``reason`` is for programs and stable; ``text`` is for people, in their language: mostly one sentence."""

    reason: str
    sentences: tuple[Sentence, ...]

    @property
    def text(self) -> str:
        return self.told(_as_it_is)

    def told(self, seen: Seen) -> str:
        """The text with what may be ``seen`` of the run's values, and not with all of them. Raises what that does."""
        return " ".join(sentence.told(seen) for sentence in self.sentences)

    def __repr__(self) -> str:
        return f"Why(reason={self.reason!r}, text={self.text!r})"


def because(reason: str, text: Any, /, **values: Any) -> Why:
    """What one sentence tells."""
    return Why(reason, (Sentence(text, values),))
