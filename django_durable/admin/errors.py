"""What went wrong, in the language of who looks: exceptions and stored texts say it in English."""

from __future__ import annotations

import re
from functools import lru_cache

from django.utils.formats import number_format
from django.utils.translation import gettext, ngettext, pgettext
from django.utils.translation import gettext_noop as _

from ..exceptions import CannotFork, RunLocked, ScheduleLocked
from .text import visible

PHRASES = (
    # Of the log.
    _("attempt %(number)s failed, the next one comes at once"),
    _("attempt %(number)s failed, the next one comes in %(seconds)s s"),
    # Of schedules.
    _("Schedule %(expression)s: %(reason)s"),
    _("No worker that is alive knows the workflow %(name)s."),
    _("Its workflow has another schedule called %(name)s."),
    _("cannot be understood: %(error)s"),
    _("can never fire: there is no such date"),
    _("at most %(most)s ASCII characters, please"),
    _("has to have five fields (minute hour day month weekday), or six (and second)"),
    _("H and R are not supported: name the values, or use jitter"),
    _("the range %(range)s would stand for every value: write %(value)s alone, or *"),
    _("the range %(range)s goes past the end and has a step: write two ranges"),
    _("%(field)s has weekdays of different kinds: make a schedule of each"),
    _("%(day)s and %(weekday)s cannot be combined: make a schedule of each"),
    _("unknown time zone %(name)s"),
    # Of workflows and forks.
    _("No workflow is registered under %(name)s."),
    _("No workflow is registered under %(name)s. Did you mean %(close)s?"),
    _("it never came there."),
    _("turn %(turn)s of loop %(path)s has left the journal, which keeps the last turns (history=…) only."),
    _("its journal does not say any more what the state of turn %(turn)s of loop %(path)s was."),
    _("its journal is damaged (%(error)s)."),
    # Of how a run is started.
    _("queue must be 1 to 100 letters, digits, dots, dashes or underscores, not %(name)s."),
    _("priority must be an integer from -100 to 100, not %(name)s."),
    # Of events.
    _(
        "Run %(run)s has open events: %(events)s, of %(size)s bytes. %(setting)s is %(limit)s: "
        "send it again when the run has taken some."
    ),
    # Of what is stored.
    _("Stored payload cannot be read: %(reason)s"),
    _("damaged text (%(error)s)"),
    _("a damaged tag"),
    _("unknown tag %(name)s"),
    _("no class is registered as %(name)s. Is the module with its @durable_type imported?"),
    _("its repr() raised %(error)s"),
    # Of names and payloads.
    _("is empty"),
    _("is longer than %(most)s characters"),
    _("has control characters or lone surrogates"),
    _(
        "takes %(size)s bytes as JSON and the cap is %(cap)s. "
        "Keep large data in a file or table of its own and pass a reference to it."
    ),
    _("is nested more than %(most)s levels deep"),
    _("is nested more deeply than the stack has room for"),
    _("an int of more than %(most)s digits cannot be stored; store it as bytes"),
)
"""As the engine says them: by these a text is known again, whatever stands in the places of the names. One that is said
otherwise one day is shown in English."""

TEXT_MOST = 2_500
_NAME = re.compile(r"%\((\w+)\)s")
_LED = re.compile("([^:]+: )(.*)", re.DOTALL)
"""With the type of an error before it, as a stored problem is, or with what it is about."""
_GROUPED = re.compile(r"\d{1,3}(,\d{3}){1,5}")
_COUNTS = frozenset({"most", "size", "cap", "events", "limit"})


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
    engine stores it: patterns with several gaps take the square of its length."""
    if len(text) > TEXT_MOST:
        return text
    known = _known(text)
    if known is None and (found := _LED.fullmatch(text)):
        known = _known(found[2])
        return text if known is None else found[1] + known
    return text if known is None else known


def _known(text: str) -> str | None:
    for phrase in PHRASES:
        if found := _pattern(phrase).fullmatch(text):
            return gettext(phrase) % {name: _value(name, value) for name, value in found.groupdict().items()}
    return None


def _value(name: str, value: str) -> str:
    if name == "reason":
        # A reason has none of its own: else a text could be nested as deeply as the stack goes.
        return value if value.startswith(("Schedule ", "Stored payload ")) else translated(value)
    if name == "seconds":
        return number_format(value)
    if name in _COUNTS and _GROUPED.fullmatch(value):
        return number_format(int(value.replace(",", "")), force_grouping=True)
    return value


@lru_cache(maxsize=len(PHRASES))
def _pattern(phrase: str) -> re.Pattern[str]:
    """What is in the places of the names is as short as can be."""
    parts = _NAME.split(phrase)
    found = [re.escape(part) if number % 2 == 0 else f"(?P<{part}>.+?)" for number, part in enumerate(parts)]
    return re.compile("".join(found), re.DOTALL)


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
