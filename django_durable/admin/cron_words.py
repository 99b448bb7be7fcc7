"""Expressions in words: "at 07:30 on weekdays". From what the engine makes of them, so that the two cannot differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from django.utils.dates import MONTHS, WEEKDAYS
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ..core.schedules.cron import LAST, Fields, fields_of
from ..exceptions import InvalidSchedule

NAMED_MOST = 6
"""Times, days and months that a sentence tells one by one."""
IN_A_ROW = 4
"""So many hours are told as a rhythm, or from the first to the last."""
MONDAY_TO_FRIDAY, WEEKEND = (1, 2, 3, 4, 5), (0, 6)


def in_words(expression: str) -> str:
    """When it fires, as a part of a sentence; nothing for one that words would not make clearer, or that is wrong."""
    try:
        fields = fields_of(expression)
    except InvalidSchedule:
        return ""
    time, days = _time(fields), _days(fields)
    if time is None or days is None:
        return ""
    return " ".join(part for part in (time, days) if part)


# --- the time of day -------------------------------------------------------------------------


def _time(fields: Fields) -> str | None:
    if len(fields.seconds) != 1:
        return _by_seconds(fields)
    step = _step(fields.minutes, 60)
    if step and fields.seconds == (0,) and not _are_few(fields):
        return _by_minutes(step, fields.hours)
    if not fields.minutes or len(fields.minutes) > NAMED_MOST:
        return None
    if not fields.hours:
        return _hourly(fields)
    if len(fields.hours) >= IN_A_ROW and len(fields.minutes) == 1:
        return _by_hours(fields)
    return _at(fields)


def _are_few(fields: Fields) -> bool:
    """Whether the day has so few times that a rhythm would be hard to see, or has none."""
    count = len(fields.hours) * len(fields.minutes)
    return 0 < count <= NAMED_MOST and (count < IN_A_ROW or not _are_in_a_row(fields.hours))


def _by_seconds(fields: Fields) -> str | None:
    step = _step(fields.seconds, 60)
    if not step or fields.minutes or fields.hours:
        return None
    return ngettext("every second", "every %(count)d seconds", step) % {"count": step}


def _by_minutes(step: int, hours: Sequence[int]) -> str | None:
    every = ngettext("every minute", "every %(count)d minutes", step) % {"count": step}
    if not hours:
        return every
    if not _are_in_a_row(hours):
        return None
    return _between(every, f"{hours[0]:02}:00", f"{hours[-1]:02}:{60 - step:02}")


def _hourly(fields: Fields) -> str | None:
    if fields.seconds != (0,):
        return None
    if fields.minutes == (0,):
        return _("every hour")
    return _("every hour at %(minutes)s") % {"minutes": _list(f":{minute:02}" for minute in fields.minutes)}


def _by_hours(fields: Fields) -> str | None:
    past, step = _clock(fields.minutes[0], fields), _step(fields.hours, 24)
    if step and fields.seconds == (0,):
        every = ngettext("every hour", "every %(count)d hours", step) % {"count": step}
        return every if past == "00" else _("%(every)s at %(minutes)s") % {"every": every, "minutes": f":{past}"}
    if _are_in_a_row(fields.hours):
        first, last = fields.hours[0], fields.hours[-1]
        return _between(_("every hour"), f"{first:02}:{past}", f"{last:02}:{past}")
    return _at(fields)


def _at(fields: Fields) -> str | None:
    if len(fields.hours) * len(fields.minutes) > NAMED_MOST:
        return None
    times = [f"{hour:02}:{_clock(minute, fields)}" for hour in fields.hours for minute in fields.minutes]
    text = _("at %(times)s") % {"times": _list(times)}
    return text if _are_some(fields) else _("%(at)s every day") % {"at": text}


def _clock(minute: int, fields: Fields) -> str:
    """The end of a clock time: minute, and second where that is not 0."""
    (second,) = fields.seconds
    return f"{minute:02}:{second:02}" if second else f"{minute:02}"


def _between(every: str, first: str, last: str) -> str:
    return _("%(every)s from %(first)s to %(last)s") % {"every": every, "first": first, "last": last}


def _step(values: Sequence[int], size: int) -> int:
    """After how many it comes again, all around the clock; 0 where it does not come evenly."""
    step = size // len(values) if values else 1
    return step if (step < size and tuple(values) == tuple(range(0, size, step))) or not values else 0


def _are_in_a_row(values: Sequence[int]) -> bool:
    return tuple(values) == tuple(range(values[0], values[-1] + 1))


# --- the days --------------------------------------------------------------------------------


def _are_some(fields: Fields) -> bool:
    return bool(fields.days or fields.weekdays or fields.months)


def _days(fields: Fields) -> str | None:
    """On which days; empty for all of them."""
    if max(len(fields.days), len(fields.months)) > NAMED_MOST:
        return None
    if not fields.days or not fields.weekdays:
        return _one_kind(fields)
    if fields.months:
        return None
    # Either is enough.
    dates, weekdays = _dates(fields), _weekdays(fields)
    return _("%(dates)s, and also %(weekdays)s") % {"dates": dates, "weekdays": weekdays}


def _one_kind(fields: Fields) -> str:
    if fields.days:
        return _dates(fields)
    weekdays = _weekdays(fields) if fields.weekdays else ""
    if not fields.months:
        return weekdays
    months = _("in %(months)s") % {"months": _months(fields)}
    return _("%(weekdays)s %(months)s") % {"weekdays": weekdays, "months": months} if weekdays else months


def _dates(fields: Fields) -> str:
    days = _list(_date(day, fields) for day in sorted(fields.days, key=lambda day: (day == LAST, day)))
    if not fields.months:
        return _("on %(days)s of the month") % {"days": days}
    return _("on %(days)s of %(months)s") % {"days": days, "months": _months(fields)}


def _date(day: int, fields: Fields) -> str:
    if day == LAST:
        return _("the last day")
    if day in fields.nearest:
        return _("the weekday nearest to day %(day)d") % {"day": day}
    return _("day %(day)d") % {"day": day}


def _months(fields: Fields) -> str:
    return _list(str(MONTHS[month]) for month in fields.months)


def _weekdays(fields: Fields) -> str:
    if fields.nth:
        return _list(_nth(weekday, which) for weekday in _from_monday(fields) for which in sorted(fields.nth[weekday]))
    if fields.weekdays == MONDAY_TO_FRIDAY:
        return _("on weekdays")
    if fields.weekdays == WEEKEND:
        return _("on Saturday and Sunday")
    return _("on %(weekdays)s") % {"weekdays": _list(_weekday(one) for one in _from_monday(fields))}


def _from_monday(fields: Fields) -> list[int]:
    return sorted(fields.weekdays, key=lambda weekday: (weekday - 1) % 7)


def _weekday(weekday: int) -> str:
    return str(WEEKDAYS[(weekday - 1) % 7])


def _nth(weekday: int, which: int) -> str:
    texts = {
        1: _("on the first %(weekday)s of the month"),
        2: _("on the second %(weekday)s of the month"),
        3: _("on the third %(weekday)s of the month"),
        4: _("on the fourth %(weekday)s of the month"),
        5: _("on the fifth %(weekday)s of the month"),
        LAST: _("on the last %(weekday)s of the month"),
    }
    return texts[which] % {"weekday": _weekday(weekday)}


def _list(parts: Sequence[str] | Iterator[str]) -> str:
    *some, last = parts
    return _("%(some)s and %(last)s") % {"some": ", ".join(some), "last": last} if some else last
