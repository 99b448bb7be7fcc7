"""A chart of what happened, as SVG without text: stretched to any width, its words and numbers stand around it as HTML.

Bars are what ended, failures at the bottom, where they are seen however few they are; the line is what started.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import log10

from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.timezone import localtime
from django.utils.translation import gettext as _

from ..client.statistics import Bucket
from . import cells

WIDTH, HEIGHT = 1_000, 100
"""In the units of the picture, which is stretched; so are they by each other."""
GAP = 0.2
"""Of a bucket's width, between two bars."""
LEAST = 1.5
"""Nothing that happened is too little to be seen."""
TIMES = 5


@dataclass(frozen=True)
class Chart:
    """All that the template shows. ``rows`` are the buckets in which anything happened, as text, the newest first."""

    name: str
    title: str
    summary: str
    svg: str
    ticks: list[str]
    times: list[str]
    rows: list[tuple[str, str, str, str, str]]


def chart(name: str, title: str, buckets: Sequence[Bucket]) -> Chart:
    """``name`` is the beginning of the ids of its elements."""
    length = buckets[1].at - buckets[0].at
    top = _top(max(max(bucket.started, _ended(bucket)) for bucket in buckets))
    summary = _summary(buckets)
    return Chart(
        name=name,
        title=title,
        summary=summary,
        svg=_svg(name, title, summary, buckets, top),
        ticks=[_short(top), _short(top // 2) if top > 1 else "", "0"],
        times=_times(buckets, length),
        rows=[_row(bucket) for bucket in reversed(buckets) if bucket.started or _ended(bucket)],
    )


def _ended(bucket: Bucket) -> int:
    return bucket.succeeded + bucket.failed + bucket.cancelled


def _top(most: int) -> int:
    """The end of the axis: 1, 2, 4, 6, 8 or 10 times a power of ten, so that half of it is round as well."""
    if most <= 2:
        return max(most, 1)
    power: int = 10 ** int(log10(most))
    return next(times * power for times in (1, 2, 4, 6, 8, 10, 20) if times * power >= most)


def _svg(name: str, title: str, summary: str, buckets: Sequence[Bucket], top: int) -> str:
    failed = [bucket.failed for bucket in buckets]
    cancelled = [bucket.cancelled for bucket in buckets]
    succeeded = [bucket.succeeded for bucket in buckets]
    under = [sum(pair) for pair in zip(failed, cancelled, strict=True)]
    return format_html(
        '<svg class="durable-chart-picture" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img"'
        ' aria-labelledby="{name}-title {name}-summary">'
        '<title id="{name}-title">{}</title><desc id="{name}-summary">{}</desc>'
        '<path class="durable-chart-grid" d="M0 0H{w}M0 {}H{w}M0 {}H{w}"/>'
        '<path class="durable-chart-failed" d="{}"/><path class="durable-chart-cancelled" d="{}"/>'
        '<path class="durable-chart-succeeded" d="{}"/><path class="durable-chart-started" d="{}"/></svg>',
        WIDTH,
        HEIGHT,
        title,
        summary,
        HEIGHT // 2,
        HEIGHT,
        _bars(failed, [0] * len(failed), top),
        _bars(cancelled, failed, top),
        _bars(succeeded, under, top),
        _line([bucket.started for bucket in buckets], top),
        name=name,
        w=WIDTH,
    )


def _bars(values: Sequence[int], under: Sequence[int], top: int) -> str:
    """A rectangle for each value that is not nothing, standing on what is under it."""
    step = WIDTH / len(values)
    width = step * (1 - GAP)
    return "".join(
        f"M{step * (place + GAP / 2):.1f} {_y(low, top):.1f}h{width:.1f}V{_y(low + value, top):.1f}h-{width:.1f}z"
        for place, (value, low) in enumerate(zip(values, under, strict=True))
        if value
    )


def _line(values: Sequence[int], top: int) -> str:
    """A step for each value; no line at all where all of them are nothing."""
    if not any(values):
        return ""
    step = WIDTH / len(values)
    steps = "".join(f"V{_y(value, top):.1f}H{step * (place + 1):.1f}" for place, value in enumerate(values))
    return f"M0 {HEIGHT}{steps}"


def _y(value: int, top: int) -> float:
    return HEIGHT - max(value / top * HEIGHT, LEAST) if value else HEIGHT


def _times(buckets: Sequence[Bucket], length: timedelta) -> list[str]:
    """Evenly from the beginning of the first bucket to the end of the last."""
    whole = length * len(buckets)
    return [date_format(localtime(buckets[0].at + whole * place / (TIMES - 1)), "H:i") for place in range(TIMES)]


def _summary(buckets: Sequence[Bucket]) -> str:
    started, failed = sum(bucket.started for bucket in buckets), sum(bucket.failed for bucket in buckets)
    ended = sum(map(_ended, buckets))
    if not started and not ended:
        return _("Nothing started and nothing ended.")
    numbers = {"started": cells.grouped(started), "ended": cells.grouped(ended), "failed": cells.grouped(failed)}
    return _("%(started)s started, %(ended)s ended, of which %(failed)s failed.") % numbers


def _row(bucket: Bucket) -> tuple[str, str, str, str, str]:
    started, succeeded, failed, cancelled = map(
        cells.grouped, (bucket.started, bucket.succeeded, bucket.failed, bucket.cancelled)
    )
    return date_format(localtime(bucket.at), "H:i"), started, succeeded, failed, cancelled


def _short(value: int) -> str:
    """At most four characters and a sign, up to numbers that nobody has."""
    for size, sign in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if value >= size:
            return f"{value / size:.3g}{sign}"
    return str(value)
