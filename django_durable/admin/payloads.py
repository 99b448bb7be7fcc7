"""Stored values and errors for people: cut, redacted, shown whatever is wrong with them. The one place that decodes.

Every page gets its values from these functions, which show what ``DURABLE["REDACT"]`` leaves of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pprint import pformat
from typing import Any

from django.utils.formats import number_format
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from ..client.listing import EXCERPT, Excerpt
from ..client.redacting import Withheld, is_redacting, redacted
from ..client.sentences import Hidden, Why
from ..core.journal.annotations import read_notes
from ..core.journal.log import FailedAttempt
from ..core.payloads.codec import decode, encode
from ..core.payloads.failures import short
from ..exceptions import DurableError, InvalidInput, InvalidName, PayloadError, PayloadUndecodable
from ..models import Run, Schedule
from ..store.declaring import ANOTHER, UNKNOWN
from .errors import told, translated
from .text import cut, cut_front, visible

UNREADABLE = _("It cannot be read, and so not be redacted.")
"""Nobody can say what is in it."""
SHORT = 32
OURS = (UNKNOWN, ANOTHER, "InvalidSchedule: Schedule ", "UnknownWorkflow: No workflow is registered under ")
"""How a schedule's problem begins that quotes names and expressions, and no value."""
ABOUT_VALUES = (InvalidInput, InvalidName, PayloadError, PayloadUndecodable)
"""The engine's own errors that may quote one."""
RAISED_BY_US = "django_durable.exceptions."
WRAPPED = re.compile(r"(?:Step .*? failed after \d+ attempts?|Child .*? \([0-9a-f-]{36}\) \w+): (.+)", re.DOTALL)
"""What StepFailed and ChildFailed say."""
PRETTY_MOST = 100_000
"""Characters of a stored value that is set out in lines; that of a larger one takes seconds."""


@dataclass(slots=True, frozen=True)
class Shown:
    """A value as text of at most ``EXCERPT`` characters; ``note`` says what is not to be seen in it, and ``more`` is
    the address of the whole one, where it was cut."""

    text: str
    note: str = ""
    more: str = ""

    @property
    def is_short(self) -> bool:
        """Whether it fits into a line, and that is all of it."""
        return 0 < len(self.text) <= SHORT and "\n" not in self.text and not self.note

    @property
    def beginning(self) -> str:
        """As much of it as fits into a line."""
        return cut(" ".join(self.text.split()), SHORT) or "…"


@dataclass(slots=True, frozen=True)
class ShownError:
    """What was raised. ``raw`` stands in for the rest where the stored text cannot be read.

    ``cause`` is the class, and ``reason`` the message, of what was raised first: where it is told of a step or a child
    that failed, that stands beside it, and in a row of a table there is no room for both.
    """

    type: str = ""
    message: str = ""
    traceback: str = ""
    raw: Shown | None = None
    more: str = ""
    cause: str = ""
    reason: str = ""

    @property
    def beginning(self) -> str:
        """As much of the reason as a row of a table has room for."""
        return cut(" ".join(self.reason.split()), 2 * SHORT)


# --- redaction -------------------------------------------------------------------------------


def readable(run: Run, kind: str, text: str) -> Any:
    """The value that people may see of the stored ``text``. Raises PayloadUndecodable, Withheld."""
    if kind == "notes" and is_redacting():
        return _readable_notes(run, text)
    return redacted(run, kind, _decoded(text))


def readable_note(run: Run, name: str, text: str) -> Any:
    """As ``readable``, of one annotation: the function is given a dict with it alone, so that it knows its name."""
    said = redacted(run, "notes", {name: _decoded(text)})
    return said[name] if isinstance(said, Mapping) and name in said else said


def readable_line(run: Run, message: str, attempt: int | None) -> str:
    """As ``readable``, of a line of the log: what ``attempt`` has raised, of which the engine tells, is an error. What
    the engine says itself is in the language of who looks."""
    return _line(run, message, attempt, translated)


def _line(run: Run, message: str, attempt: int | None, told: Callable[[str], str]) -> str:
    line = FailedAttempt.read(message) if attempt is not None else None
    if line is None:
        return str(redacted(run, "log", message))
    head = told(line.head)
    if not is_redacting():
        return head + message.removeprefix(line.head)
    error = redacted(run, "error", {"type": line.type, "message": line.message, "traceback": ""})
    if not isinstance(error, Mapping) or "type" not in error:
        return f"{head}: {error}"
    return str(replace(line, head=head, type=str(error["type"] or ""), message=str(error.get("message") or "")))


def _readable_notes(run: Run, text: str) -> list[list[Any]]:
    """Names and values, as they are stored. However they are come by, the function is asked for one by one."""
    notes = read_notes(text)
    if not notes:
        raise Withheld(UNREADABLE)
    return [[name, readable_note(run, name, note)] for name, note in notes.items()]


def _decoded(text: str) -> Any:
    try:
        return decode(text)
    except PayloadUndecodable as error:
        if is_redacting():
            raise Withheld(UNREADABLE) from error
        raise


# --- pieces of pages -------------------------------------------------------------------------


def shown(run: Run, kind: str, excerpt: Excerpt | None, more: str = "", most: int = EXCERPT) -> Shown | None:
    """The value as Python writes it; a long one as the beginning of the stored JSON, and nothing of it where it would
    have to be redacted, which takes all of it. ``kind`` is a word for the project's function, ``more`` the address of
    the whole."""
    if excerpt is None:
        return None
    if excerpt.is_cut:
        text = "" if is_redacting() else visible(cut(excerpt.text, most))
        return Shown(text, _("%s characters in all") % number_format(excerpt.size, force_grouping=True), more)
    try:
        text = written(readable(run, kind, excerpt.text))
    except Withheld as refusal:
        return Shown("", str(refusal))
    except PayloadUndecodable as error:
        return Shown(visible(cut(excerpt.text, most)), told(error))
    return Shown(cut(text, most), "", more if len(text) > most else "")


def shown_error(run: Run, excerpt: Excerpt | None, more: str = "", most: int = EXCERPT) -> ShownError | None:
    """Type, message and the end of the traceback."""
    if excerpt is None:
        return None
    found = None if excerpt.is_cut else seen(run, "error", excerpt.text)
    # That of a child, or of a map's item, comes with the status in which it ended.
    if isinstance(found, list) and len(found) == 2 and isinstance(found[1], Mapping):
        found = found[1]
    if isinstance(found, Mapping) and found and all(map(_is_error, found.values())):
        return _shown_errors(found, more, most)
    if not isinstance(found, Mapping) or not _is_error(found):
        return ShownError(raw=shown(run, "error", excerpt, more, most))
    parts = {key: visible(str(found.get(key) or "")) for key in ("type", "message", "traceback")}
    is_cut = len(parts["message"]) > most or len(parts["traceback"]) > most
    cause, reason = _first(parts["type"], parts["message"])
    return ShownError(
        type=cut(parts["type"], 200),
        message=cut(parts["message"], most),
        traceback=cut_front(parts["traceback"], most),
        more=more if is_cut else "",
        cause=cut(cause, 200),
        reason=cut(reason, most),
    )


def _is_error(told: Any) -> bool:
    return isinstance(told, Mapping) and "type" in told


def _shown_errors(found: Mapping[Any, Any], more: str, most: int) -> ShownError:
    """Of a map or a join that has several, by their places: which they are, and of the first what it was."""
    told = [
        (visible(str(place)), *_first(visible(str(one["type"] or "")), visible(str(one.get("message") or ""))))
        for place, one in found.items()
    ]
    counted = ngettext("%(count)d failed: %(which)s", "%(count)d failed: %(which)s", len(told))
    which = cut(", ".join(place for place, _cause, _reason in told), 2 * SHORT)
    headline = counted % {"count": len(told), "which": which}
    message = "\n".join(f"{place}: {cause}: {reason}" for place, cause, reason in told)
    first = visible(str(next(iter(found.values())).get("traceback") or ""))
    return ShownError(
        type=headline,
        message=cut(message, most),
        traceback=cut_front(first, most),
        more=more if len(message) > most or len(first) > most else "",
        cause=headline,
        reason=cut(f"{told[0][1]}: {told[0][2]}", most),
    )


def _first(raised: str, message: str) -> tuple[str, str]:
    while raised.startswith(RAISED_BY_US) and (wrapped := WRAPPED.match(message)):
        raised, _colon, message = wrapped[1].partition(": ")
    return raised.rpartition(".")[2] or raised, message


def shown_notes(run: Run, excerpt: Excerpt | None, more: str = "") -> list[tuple[str, Shown | None]]:
    """Names and values of annotations; where they cannot be told apart, the stored text under no name."""
    if excerpt is None:
        return []
    notes = {} if excerpt.is_cut else read_notes(excerpt.text)
    if notes:
        return [(visible(name), _shown_note(run, name, text, more)) for name, text in notes.items()]
    return [("", shown(run, "notes", excerpt, more))]


def _shown_note(run: Run, name: str, text: str, more: str) -> Shown | None:
    try:
        value = written(readable_note(run, name, text))
    except Withheld as refusal:
        return Shown("", str(refusal))
    except PayloadUndecodable as error:
        return Shown(visible(cut(text, EXCERPT)), told(error))
    return Shown(cut(value, EXCERPT), "", more if len(value) > EXCERPT else "")


def shown_why(run: Run, why: Why, *, may_see: bool) -> str:
    """Why it does not run now, with what may be seen of the run's values that stand in it."""

    def seen(kind: str, value: Any) -> Any:
        # It is made of the input. What a run is blocked for is an error, which is for everybody.
        if kind == "limit_key" and not may_see:
            raise Hidden
        found = redacted(run, kind, value)
        return _translated_block(found) if kind == "block" else found

    try:
        return visible(why.told(seen))
    except Withheld as refusal:
        return str(refusal)


def _translated_block(found: Any) -> Any:
    """What the engine has said of a run that is blocked; what a project has put in its place stays."""
    if not isinstance(found, Mapping) or "message" not in found:
        return found
    return {**found, "message": translated(str(found["message"]))}


def shown_problem(schedule: Schedule) -> str:
    """What stops it. Where values are redacted, of what others have raised the type: the project's function is asked of
    runs, and there is none."""
    problem = schedule.problem
    if is_redacting() and not problem.startswith(OURS):
        return _unsaid(problem.partition(":")[0])
    return visible(translated(problem))


def shown_refusal(error: Exception) -> str:
    """Why a schedule's input starts no run, for somebody who has not typed it: redacted as ``shown_problem``."""
    tells_values = not isinstance(error, DurableError) or isinstance(error, ABOUT_VALUES)
    if is_redacting() and tells_values:
        return _unsaid(type(error).__name__)
    return told(error) if isinstance(error, DurableError) else visible(short(error))


def _unsaid(raised: str) -> str:
    hidden = gettext("What it says is not shown: it may hold a value.")
    return f"{raised}: {hidden}" if raised.isidentifier() else hidden


def seen(run: Run, kind: str, text: str) -> Any:
    """As ``readable``, or None where there is nothing to be seen."""
    try:
        return readable(run, kind, text)
    except (PayloadUndecodable, Withheld):
        return None


def decoded(text: str) -> Any:
    """What the engine wrote of its own, or None where the text cannot be read."""
    try:
        return decode(text)
    except PayloadUndecodable:
        return None


def exported(run: Run, kind: str, text: str) -> str | None:
    """The stored text as people may have it in a file; None where they may have nothing of it."""
    if not is_redacting():
        return text
    try:
        return encode(readable(run, kind, text))
    except (Withheld, PayloadUndecodable, PayloadError):
        return None


def exported_line(run: Run, message: str, attempt: int | None) -> str | None:
    """A line of the log, likewise, in the words that are stored."""
    try:
        return _line(run, message, attempt, str)
    except Withheld:
        return None


# --- whole values ----------------------------------------------------------------------------


def whole(run: Run, kind: str, text: str) -> str:
    """The whole value as text; that of what cannot be read is what is stored. Raises Withheld."""
    is_large = len(text) > PRETTY_MOST
    if is_large and not is_redacting():
        return text
    try:
        return written(readable(run, kind, text), is_pretty=not is_large)
    except PayloadUndecodable:
        return text


def written(value: Any, *, is_pretty: bool = True) -> str:
    """As a literal of Python, which spells out what is not printable; types of the project may have any ``repr``.

    Raises PayloadUndecodable where that fails, so that what is stored is shown instead; Withheld where that would have
    to be redacted.
    """
    try:
        return visible(pformat(value, width=80, sort_dicts=False) if is_pretty else repr(value))
    except Exception as error:
        if is_redacting():
            raise Withheld(_("It cannot be written as text, and so not be shown redacted.")) from None
        raise PayloadUndecodable(f"its repr() raised {type(error).__name__}") from error
