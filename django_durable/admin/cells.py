"""Small pieces of the pages: pills, times, durations, progress. All of them escape what they are given."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeGuard

from django.utils.formats import number_format
from django.utils.html import format_html
from django.utils.timezone import localtime
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..client.standing import Bounded
from ..core.journal.states import LIVE, Phase, Status
from ..models import Run, Schedule
from .text import cut, visible

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

NOTHING = "-"
NAME_SHOWN, MESSAGE_SHOWN = 80, 40
PROGRESS_MOST = 1e15
ENTRY_LABELS = {
    "waiting": _("waiting"),
    "retrying": _("retrying"),
    "succeeded": _("succeeded"),
    "failed": _("failed"),
}
PHASE_LABELS = {Phase.COMPENSATING: _("compensating"), Phase.ON_FAILURE: _("on failure")}


def pill(status: str, label: StrOrPromise) -> str:
    return format_html('<span class="durable-pill durable-pill-{}">{}</span>', status, label)


def run_pills(run: Run) -> str:
    """The run's status, what phase it is in if that is not the usual one, and whether it was asked to stop."""
    pills = [pill(run.status, run.get_status_display())]
    if run.phase in PHASE_LABELS and run.status in LIVE:
        pills.append(pill(run.phase, PHASE_LABELS[Phase(run.phase)]))
    if run.cancel_requested_at and run.status in LIVE:
        pills.append(pill("cancelling", _("cancelling")))
    elif run.pause_requested_at and run.status == Status.RUNNING:
        pills.append(pill("pausing", _("pausing")))
    return format_html("{} {} {}", *pills, *[""] * (3 - len(pills)))


def switch_pill(schedule: Schedule) -> str:
    return pill("enabled", _("enabled")) if schedule.enabled else pill("disabled", _("disabled"))


def name(text: str, most: int = NAME_SHOWN) -> str:
    """A name from outside: cut, isolated from the direction of its neighbours, whole in its title."""
    text = visible(text)
    if len(text) <= most:
        return format_html("<bdi>{}</bdi>", text)
    return format_html('<bdi title="{}">{}</bdi>', text, cut(text, most))


def linked(shown: str, url: str) -> str:
    """What is shown already, as a link; without an address as it is."""
    return format_html('<a href="{}">{}</a>', url, shown) if url else shown


def short_id(value: object) -> str:
    """The end of an id: that of a UUIDv7 begins with the time, which neighbours share."""
    return str(value)[-12:]


def attempt(run: Run) -> str:
    return str(run.attempt) if run.max_attempts is None else f"{run.attempt}/{run.max_attempts}"


def moment(value: datetime | None) -> str:
    """An instant to the second, in the zone of the site."""
    if value is None:
        return NOTHING
    return dated(localtime(value))


def dated(local: datetime) -> str:
    """Where there is no room for both, the date stands above the time, and neither of them is broken."""
    return format_html(
        '<time datetime="{}"><span>{}</span> <span>{}</span></time>',
        local.isoformat(),
        f"{local:%Y-%m-%d}",
        f"{local:%H:%M:%S}",
    )


def grouped(number: int) -> str:
    """A whole number with the separators of the language."""
    return number_format(number, force_grouping=True)


def bounded(count: Bounded) -> str:
    """How many; where nobody has counted to the end, the first figure of as many as there are at least."""
    if not count.is_more:
        return grouped(count.number)
    unit = 10 ** max(len(str(count.number)) - 1, 0)
    return f"{grouped(count.number // unit * unit)}+"


def relative(value: datetime | None, now: datetime) -> str:
    """How far away an instant is; the title has it to the second."""
    if value is None:
        return NOTHING
    local = localtime(value)
    text = gettext("%(time)s ago") if value <= now else gettext("in %(time)s")
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        local.isoformat(),
        f"{local:%Y-%m-%d %H:%M:%S %Z}",
        text % {"time": rough(abs(now - value))},
    )


def due(value: datetime, now: datetime) -> str:
    """When something comes, or since when it is overdue."""
    when = relative(value, now)
    return when if value > now else format_html(gettext("due {}"), when)


def rough(value: timedelta) -> str:
    """A length of time in its largest unit."""
    seconds = int(value.total_seconds())
    for size, unit in ((86_400, gettext("d")), (3_600, gettext("h")), (60, gettext("min"))):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} {gettext('s')}"


def duration(start: datetime | None, end: datetime | None) -> str:
    """From one instant to the other in its two largest units; short ones to the millisecond."""
    if start is None or end is None:
        return NOTHING
    return length((end - start).total_seconds())


def length(seconds: float) -> str:
    """A length of time, likewise."""
    seconds = max(seconds, 0.0)
    # Rounded first: what comes to a whole second or minute is told as one.
    if (thousandths := round(seconds * 1000)) < 1000:
        return gettext("%d ms") % thousandths
    if (tenths := round(seconds, 1)) < 60:
        return f"{number_format(f'{tenths:.1f}')} {gettext('s')}"
    whole = round(seconds)
    for size, unit, part, part_unit in (
        (86_400, gettext("d"), 3_600, gettext("h")),
        (3_600, gettext("h"), 60, gettext("min")),
        (60, gettext("min"), 1, gettext("s")),
    ):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // part} {part_unit}"
    raise AssertionError("a minute or more has a unit")


def progress(said: Any, *, with_words: bool = False) -> str:
    """The bar of what ``ctx.progress`` said last, and its message where nobody else shows it; anything unexpected is
    shown as nothing."""
    if not isinstance(said, Mapping):
        return NOTHING
    done, total, message = said.get("done"), said.get("total"), visible(str(said.get("message") or ""))
    if not _is_number(done):
        return NOTHING
    if not _is_number(total) or total <= 0:
        bar = format_html('<span title="{}">{}</span>', message, _number(done))
    else:
        bar = format_html(
            '<span class="durable-progress" title="{}">'
            '<progress max="{}" value="{}" aria-label="{}"></progress> {}/{}</span>',
            message,
            _number(total),
            _number(max(done, 0)),
            gettext("Progress"),
            _number(done),
            _number(total),
        )
    if not with_words or not message:
        return bar
    # A title is for those only who have a mouse to point with.
    return format_html('{} <span class="durable-quiet">{}</span>', bar, name(message, MESSAGE_SHOWN))


def _is_number(value: object) -> TypeGuard[float]:
    """One that is worth a bar: damaged data may hold others, and some of them no float can be made of."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < PROGRESS_MOST


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6g}"
