"""What went wrong, in the language of who looks: exceptions and stored texts say it in English."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from django.utils.formats import number_format
from django.utils.translation import gettext, ngettext, pgettext

from ..core.journal.states import Kind
from ..exceptions import CannotFork, RunLocked, ScheduleLocked
from .phrases import PHRASES
from .text import visible

TEXT_MOST = 2_500
_NAME = re.compile(r"%\((\w+)\)s")
_LED = re.compile("([^:]+: )(.*)", re.DOTALL)
"""With the type of an error before it, as a stored problem is, or with what it is about."""
_GROUPED = re.compile(r"\d{1,3}(,\d{3}){1,5}")
_COUNTS = frozenset({"most", "size", "cap", "events", "limit"})
_SAID_IN_IT = frozenset({"reason", "hint"})
"""Where another phrase stands; under ``problems`` there are several."""
_KINDS = frozenset({"kind", "asked"})
_TIME = r"\d{4}-\d\d-\d\d\S*"
_SHAPES = {"run": "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", "count": r"\d+", "index": r"\d+"}
_SHAPES |= dict.fromkeys(("since", "until", "after"), _TIME)
_SHAPES |= dict.fromkeys(_COUNTS, r"[\d,]+") | {"setting": r"\w+"}
"""Of what is no free text: a person who writes words like ours is not taken for the engine. And a pattern with several
gaps that anything fits into takes a power of the length of a text that somebody has made for it."""
_PLAIN = tuple(phrase for phrase in PHRASES if not {*_SAID_IN_IT, "problems"} & {*_NAME.findall(phrase)})
"""What stands in others has no other in it: else a text could be nested as deeply as the stack goes."""


def told(error: Exception) -> str:
    """The message of the error; in English where there is no translation. Fit to be looked at."""
    match error:
        case RunLocked():
            text = _run_locked(error)
        case ScheduleLocked():
            text = _schedule_locked(error)
        case CannotFork():
            text = _cannot_fork(error)
        case _:
            text = translated(str(error))
    return visible(text)


def translated(text: str) -> str:
    """What the engine has said or stored; what is not known as that stays as it is, and so does what is longer than the
    engine stores it."""
    return _translated(text, PHRASES)


def translated_start(text: str, phrases: Sequence[str]) -> str:
    """What the engine has stored as one of these phrases, and after a colon what a person has said, which stays."""
    known = _known(text, phrases, more=r"(?P<said>: .*)?") if len(text) <= TEXT_MOST else None
    return text if known is None else known


def _translated(text: str, phrases: Sequence[str]) -> str:
    if len(text) > TEXT_MOST:
        return text
    known = _known(text, phrases)
    if known is None and (found := _LED.fullmatch(text)):
        known = _known(found[2], phrases)
        return text if known is None else found[1] + known
    return text if known is None else known


def _known(text: str, phrases: Sequence[str], more: str = "") -> str | None:
    for phrase in phrases:
        if found := _pattern(phrase, more).fullmatch(text):
            values = {name: _value(name, value) for name, value in found.groupdict(default="").items()}
            return gettext(phrase) % values + values.get("said", "")
    return None


def _value(name: str, value: str) -> str:
    if name in _SAID_IN_IT:
        return _translated(value, _PLAIN)
    if name == "problems":
        whole = _translated(value, _PLAIN)
        return "; ".join(_translated(one, _PLAIN) for one in value.split("; ")) if whole == value else whole
    if name in _KINDS and value in {*Kind}:
        # Not with the module: what has these words shows values, and tells of their errors by this module.
        from .waterfall_words import KINDS

        return str(KINDS[Kind(value)])
    if name == "seconds":
        return number_format(value)
    if name in _COUNTS and _GROUPED.fullmatch(value):
        return number_format(int(value.replace(",", "")), force_grouping=True)
    return value


@cache
def _pattern(phrase: str, more: str) -> re.Pattern[str]:
    """What is in the places of the names is as short as can be."""
    parts = _NAME.split(phrase)
    found = [
        re.escape(part) if number % 2 == 0 else f"(?P<{part}>{_SHAPES.get(part, '.+?')})"
        for number, part in enumerate(parts)
    ]
    return re.compile("".join(found) + more, re.DOTALL)


# --- errors that are put together ------------------------------------------------------------


def _run_locked(error: RunLocked) -> str:
    if error.keys:
        held = pgettext("held", "The start of %s") % repr(error.keys[0])
    elif error.run_ids:
        held = pgettext("held", "Run %s") % error.run_ids[0]
    else:
        held = pgettext("held", "A run")
    advice = gettext("Try again when it has, and keep transactions that act on runs short.")
    return f"{_held(held, len(error.keys or error.run_ids), error.seconds)} {advice}"


def _schedule_locked(error: ScheduleLocked) -> str:
    held = pgettext("held", "Schedule %s") % error.schedules[0]
    advice = gettext("Try again when it has.")
    return f"{_held(held, len(error.schedules), error.seconds)} {advice}"


def _held(held: str, count: int, seconds: float) -> str:
    if count > 1:
        text = ngettext("%(held)s (and %(count)s more)", "%(held)s (and %(count)s more)", count - 1)
        held = text % {"held": held, "count": count - 1}
    text = gettext("%(held)s is held by another transaction that has not ended within %(seconds)s s.")
    return text % {"held": held, "seconds": number_format(f"{seconds:g}")}


def _cannot_fork(error: CannotFork) -> str:
    values = {"run": error.run_id, "step": error.from_step, "reason": translated(error.reason)}
    text = gettext("Run %(run)s cannot be forked from %(step)r: %(reason)s") % values
    hint = gettext("Did you mean %(close)s?") % {"close": ", ".join(map(repr, error.close))}
    return f"{text} {hint}" if error.close else text
