"""The rows of a timeline as HTML. A page has hundreds of them, and a template takes ten times as long."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.utils.functional import cached_property
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext, ngettext

from .payloads import Shown, ShownError

if TYPE_CHECKING:
    from django.utils.safestring import SafeString


@dataclass(slots=True, frozen=True)
class Bar:
    """``what`` is the class of the stylesheet; the rest is per cent of the axis."""

    what: str
    x: float
    width: float


@dataclass(slots=True, frozen=True)
class Mark:
    """A moment, ``x`` per cent of the axis from its beginning, and what is told of it to who points at it."""

    x: float
    told: str


@dataclass(slots=True)
class Line:
    """A row of the table. ``above`` is the path of the scopes around it, for who does not see how it is set in."""

    label: str
    depth: int
    bars: list[Bar]
    marks: Iterable[Mark] = ()
    above: str = ""
    seq: int | None = None
    fork_from: str = ""
    """Where a fork may begin; empty: not here."""
    kind: str = ""
    state: str = ""
    attempts: int = 0
    tries: str = ""
    """In words what the bars show of the attempts that were made again."""
    is_told_in_part: bool = False
    """Whether the log does not have all of these."""
    started: str = ""
    duration: str = ""
    waits: str = ""
    note: str = ""
    """In place of a value."""
    value: Shown | None = None
    error: ShownError | None = None
    child_url: str = ""
    child_pills: str = ""
    closer: str = ""
    """The address of a timeline of this alone."""


@dataclass
class Rows:
    """Writes them; the words that they share are looked up once."""

    may_fork: bool

    def write(self, line: Line) -> SafeString:
        return format_html(
            '<tr{}><th scope="row" class="durable-in-{}">{}{} <span class="durable-quiet">{}</span></th>'
            '<td class="durable-times">{}</td><td>{}{}{}{}</td><td class="durable-time">{}</td>'
            '<td class="durable-time">{}</td><td class="durable-result">{}{}{}{}{}</td></tr>\n',
            "" if line.seq is None else format_html(' id="entry-{}"', line.seq),
            line.depth,
            format_html('<span class="durable-unseen">{}</span>', line.above) if line.above else "",
            _name(line),
            line.kind,
            _track(line.bars, line.marks),
            line.state,
            _aside(_attempts(line)) if line.attempts > 1 else "",
            format_html('<span class="durable-unseen">: {}</span>', line.tries) if line.tries else "",
            _aside(line.waits) if line.waits else "",
            line.started,
            line.duration,
            self._child(line) if line.child_url else "",
            _aside(line.note) if line.note else "",
            self._value(line.seq, line.value) if line.value else "",
            self._error(line.seq, line.error) if line.error else "",
            self._fork(line.fork_from) if line.fork_from and self.may_fork else "",
        )

    def _child(self, line: Line) -> SafeString:
        return format_html('{} <a href="{}">{}</a> ', line.child_pills, line.child_url, self._child_run)

    def _value(self, seq: int | None, value: Shown) -> SafeString:
        if value.is_short:
            return format_html("<code>{}</code> ", value.text)
        return format_html(
            '<details id="value-{}"><summary><code>{}</code></summary>{}</details> ',
            seq,
            value.beginning,
            self._whole(value),
        )

    def _whole(self, value: Shown) -> SafeString:
        text = format_html('<pre class="durable-value">{}</pre>', value.text) if value.text else ""
        more = self._more_link(value.more) if value.more else ""
        return format_html('{}<p class="durable-note">{} {}</p>', text, value.note, more)

    def _error(self, seq: int | None, error: ShownError) -> SafeString:
        if error.raw is not None:
            return self._value_of_error(seq, error.raw)
        more = self._more_link(error.more) if error.more else ""
        return format_html(
            '<details id="error-{}"><summary><strong class="durable-error-type">{}</strong>: {}</summary>'
            '<p class="durable-raised">{}: {}</p><pre class="durable-value">{}</pre>{}</details> ',
            seq,
            error.cause,
            error.beginning,
            error.type,
            error.message,
            error.traceback,
            more,
        )

    def _value_of_error(self, seq: int | None, raw: Shown) -> SafeString:
        return format_html(
            '<details id="error-{}"><summary><code class="durable-error-type">{}</code></summary>{}</details> ',
            seq,
            raw.beginning,
            self._whole(raw),
        )

    def _more_link(self, url: str) -> SafeString:
        return format_html('<a href="{}">{}</a>', url, self._all_of_it)

    def _fork(self, path: str) -> SafeString:
        return format_html(
            '<button form="durable-fork" name="from_step" value="{}" class="durable-fork">{}…</button>',
            path,
            self._fork_word,
        )

    @cached_property
    def _child_run(self) -> str:
        return gettext("child run")

    @cached_property
    def _all_of_it(self) -> str:
        return gettext("Show all of it")

    @cached_property
    def _fork_word(self) -> str:
        return gettext("fork")


def _name(line: Line) -> SafeString:
    if not line.closer:
        return format_html("<bdi>{}</bdi>", line.label)
    return format_html('<a href="{}"><bdi>{}</bdi></a>', line.closer, line.label)


def _attempts(line: Line) -> str:
    told = ngettext("%d attempt", "%d attempts", line.attempts) % line.attempts
    return gettext("{}, not all of them in the log").format(told) if line.is_told_in_part else told


def _aside(text: Any) -> SafeString:
    return format_html(' <span class="durable-quiet">{}</span>', text)


def _track(bars: list[Bar], marks: Iterable[Mark]) -> SafeString:
    drawn = format_html_join(
        "",
        '<rect class="durable-bar-{}" x="{}%" width="{}%"/>',
        ((bar.what, f"{bar.x:.2f}", f"{bar.width:.2f}") for bar in bars),
    )
    sent = format_html_join(
        "", '<circle cx="{}%"><title>{}</title></circle>', ((f"{mark.x:.2f}", mark.told) for mark in marks)
    )
    return format_html(
        '<svg class="durable-track" aria-hidden="true"><use href="#durable-grid"/>{}{}</svg>', drawn, sent
    )
