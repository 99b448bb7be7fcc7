"""The time axis of a timeline: real, but for long idle times, which are drawn short and marked as such.

A sleep of three days between steps of 20 ms would leave nothing of the steps. So where the longest idle times together
are several times as long as all the rest, each of them gets a bounded share of the axis.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from math import inf

from django.utils.formats import number_format
from django.utils.translation import gettext

GAPS_MOST = 24
"""Idle times that are drawn short: more of them than that are as regular as a scale."""
WORTH = 3.0
"""They are, where all of them together are so many times as long as the rest."""
SHARE = 3
"""All of them together take one part of the width where what is drawn to scale takes so many."""
LEAST = 0.001
"""Seconds: the shortest axis."""
NEVER = 1e-7
"""Seconds: less than anything lasts that the database knows of."""
CHARACTER = 3.0
"""Per cent that a character of a label takes, on a narrow screen."""
TICKS_WANTED = 6

_MS, _S, _MIN, _H, _D = 0.001, 1.0, 60.0, 3_600.0, 86_400.0
_NICE = (
    *(number * _MS for number in (1, 2, 5, 10, 20, 50, 100, 200, 500)),
    *(number * _S for number in (1, 2, 5, 10, 15, 30)),
    *(number * _MIN for number in (1, 2, 5, 10, 15, 30)),
    *(number * _H for number in (1, 2, 3, 6, 12)),
    *(number * _D for number in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)),
)


@dataclass(slots=True, frozen=True)
class Gap:
    """An idle time that is drawn short: where, in per cent, and how long it was."""

    x: float
    width: float
    label: str

    @property
    def middle(self) -> float:
        return self.x + self.width / 2

    @property
    def is_roomy(self) -> bool:
        """Whether its label fits in."""
        return self.width >= len(self.label) * CHARACTER


@dataclass(slots=True, frozen=True)
class Tick:
    x: float
    label: str

    @property
    def anchor(self) -> str:
        """Which end of the label is at ``x``: none may stick out."""
        return "start" if self.x < self._half else "end" if self.x > 100 - self._half else "middle"

    @property
    def left(self) -> float:
        return {"start": self.x, "middle": self.x - self._half, "end": self.x - 2 * self._half}[self.anchor]

    @property
    def right(self) -> float:
        return self.left + 2 * self._half

    @property
    def _half(self) -> float:
        return len(self.label) * CHARACTER / 2


@dataclass(slots=True)
class Axis:
    """Instants as per cent of the width. ``work`` are the times in which something was done, ``edges`` the instants at
    which something began or ended: they part the idle times."""

    start: datetime
    end: datetime
    work: Sequence[tuple[datetime, datetime]]
    edges: Iterable[datetime] = ()
    gaps: list[Gap] = field(init=False)
    ticks: list[Tick] = field(init=False)
    _froms: list[float] = field(init=False)
    """Seconds at which pieces begin, that are drawn to one scale each; with ``_xs``, where these begin."""
    _xs: list[float] = field(init=False)

    def __post_init__(self) -> None:
        total = max(self._seconds(self.end), LEAST)
        gaps, cap = _short(self._idle(total), total)
        self._froms, self._xs = [0.0], [0.0]
        drawn = 0.0
        for start, end in gaps:
            drawn += start - self._froms[-1]
            self._add(start, drawn)
            drawn += cap
            self._add(end, drawn)
        length = drawn + total - self._froms[-1]
        self._add(total, length)
        self._xs = [x / length * 100 for x in self._xs]
        self.gaps = [Gap(self._x(start), self._x(end) - self._x(start), spelled(end - start)) for start, end in gaps]
        self.ticks = self._ticks(gaps, total, length)

    @property
    def untold(self) -> list[str]:
        """How long the gaps were, from left to right, where one of them has no room to tell it."""
        return [] if all(gap.is_roomy for gap in self.gaps) else [gap.label for gap in self.gaps]

    def at(self, when: datetime) -> float:
        """Where the instant is, from 0 to 100."""
        return self._x(self._seconds(when))

    def _seconds(self, when: datetime) -> float:
        return (when - self.start).total_seconds()

    def _inside(self, when: datetime, total: float) -> float:
        return min(max(self._seconds(when), 0.0), total)

    def _x(self, seconds: float) -> float:
        piece = min(max(bisect_right(self._froms, seconds) - 1, 0), len(self._froms) - 2)
        start, end, x = self._froms[piece], self._froms[piece + 1], self._xs[piece]
        share = (seconds - start) / (end - start) if end > start else 0.0
        return x + min(max(share, 0.0), 1.0) * (self._xs[piece + 1] - x)

    def _add(self, seconds: float, x: float) -> None:
        self._froms.append(seconds)
        self._xs.append(x)

    def _idle(self, total: float) -> list[tuple[float, float]]:
        """The times between the start and the end of the axis in which nothing was done, and nothing else happened."""
        if not self.work:
            return []
        # By a clock that was set back work may end before it began, or outside of the axis.
        spans = sorted((self._inside(start, total), self._inside(end, total)) for start, end in self.work)
        edges = sorted({self._seconds(edge) for edge in self.edges})
        idle: list[tuple[float, float]] = []
        reached = 0.0
        for start, end in (*spans, (total, total)):
            if start > reached:
                inside = edges[bisect_right(edges, reached) : bisect_left(edges, start)]
                idle += pairwise([reached, *inside, start])
            reached = max(reached, start, end)
        return idle

    def _ticks(self, gaps: Sequence[tuple[float, float]], total: float, length: float) -> list[Tick]:
        """Before and after a gap they count from its end: what is in between is drawn to scale.

        Where there is no room for the end of a gap nothing counts from it; for that of the last gap room is made.
        """
        step = next((step for step in _NICE if step >= length / TICKS_WANTED), _NICE[-1])
        starts, ends = [0.0, *(end for _, end in gaps)], [*(start for start, _ in gaps), total]
        *pieces, (base, *others) = [self._piece(start, end, step) for start, end in zip(starts, ends, strict=True)]
        ticks: list[Tick] = []
        for first, *following in pieces:
            if _add(ticks, first, base.left - CHARACTER):
                for tick in following:
                    _add(ticks, tick, base.left - CHARACTER)
        ticks.append(base)
        for tick in others:
            _add(ticks, tick)
        return ticks

    def _piece(self, start: float, end: float, step: float) -> list[Tick]:
        """Those between two gaps, the end of the first one before all that count from it."""
        moments = [start + number * step for number in range(int((end - start) / step) + 1)]
        plus = "+" if start else ""
        texts = [spelled(start) if start else "0", *(plus + spelled(moment - start) for moment in moments[1:])]
        return [Tick(self._x(moment), text) for moment, text in zip(moments, texts, strict=True)]


def _add(ticks: list[Tick], tick: Tick, until: float = inf) -> bool:
    """Where it has room after the others and ends by then; whether it has."""
    has_room = tick.right <= until and (not ticks or tick.left >= ticks[-1].right + CHARACTER)
    if has_room:
        ticks.append(tick)
    return has_room


def _short(idle: list[tuple[float, float]], total: float) -> tuple[list[tuple[float, float]], float]:
    """Which idle times are drawn short, and as long as how many seconds."""
    longest = sorted(idle, key=lambda gap: gap[0] - gap[1])[:GAPS_MOST]
    left_out = sum(end - start for start, end in longest)
    rest = total - left_out
    if rest < NEVER or left_out < WORTH * rest:
        return [], 0.0
    # The shortest ones may be as good as nothing: they stay, and do not make the others narrower.
    while longest:
        visible = total - sum(end - start for start, end in longest)
        cap = visible / (len(longest) * SHARE)
        if longest[-1][1] - longest[-1][0] > 2 * cap:
            return sorted(longest), cap
        longest.pop()
    return [], 0.0


def spelled(seconds: float) -> str:
    """A length of time in its two largest units, without those that are nought."""
    if (thousandths := round(seconds * 1_000)) < 1_000:
        return gettext("%d ms") % thousandths
    if float(brief := f"{seconds:.3g}") < _MIN:
        return f"{number_format(brief)} {gettext('s')}"
    units = ((_D, gettext("d")), (_H, gettext("h")), (_MIN, gettext("min")), (_S, gettext("s")))
    whole = round(seconds)
    parts: list[str] = []
    for size, unit in units:
        number, whole = divmod(whole, int(size))
        if number or parts:
            parts.append(f"{number} {unit}" if number else "")
        if len(parts) == 2:
            break
    return " ".join(part for part in parts if part)
