"""How a figure grows, as lines: one SVG for each curve, in the style of the bars."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import log10

from .chart import TITLE, WIDTH
from .ledger import Ledger, Series

HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 260, 70, 140, 12, 44
STYLE = """text { font: 13px system-ui, sans-serif; fill: #1f2328 } .title { font-weight: 600 }
.middle { text-anchor: middle } .end { text-anchor: end }
.grid { stroke: #d0d7de } polyline { stroke-width: 2 }
.line0 { stroke: #0969da; fill: #0969da } .line1 { stroke: #bf8700; fill: #bf8700 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .grid { stroke: #3d444d }
.line0 { stroke: #4493f8; fill: #4493f8 } .line1 { stroke: #d29922; fill: #d29922 } }"""


@dataclass(frozen=True)
class Curve:
    """The figures ``name@x``. ``title`` says what is drawn, ``along`` what it depends on."""

    name: str
    title: str
    along: str


CURVES = (
    Curve("drain_by_workers", "one-step runs done, a second", "worker processes"),
    Curve("drain_by_queued", "one-step runs done by two worker processes, a second", "runs in the queue"),
    Curve("drain_by_kilobytes", "one-step runs done by two worker processes, a second", "kilobytes of each payload"),
    Curve("replay_us", "microseconds of replay for each entry", "journaled steps at resume"),
    Curve("resume_ms", "milliseconds from the claim to the first new step", "journaled steps at resume"),
)

Points = list[tuple[float, float]]
"""By x."""


def points(ledger: Ledger, curve: Curve) -> dict[str, Points]:
    """The medians by variant; empty where nothing of it was measured."""
    found: dict[str, Points] = {}
    for series in ledger.series.values():
        if (x := _x(series, curve)) is not None:
            found.setdefault(series.variant, []).append((x, series.median))
    return {variant: sorted(line) for variant, line in sorted(found.items(), reverse=True)}


def drawn(curve: Curve, lines: dict[str, Points]) -> str:
    """An SVG document. x grows by factors, y begins at nothing."""
    xs = sorted({x for line in lines.values() for x, _ in line})
    top = _round_up(max(y for line in lines.values() for _, y in line))
    name = f"{curve.title}, by {curve.along}"
    blocks = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {TITLE + HEIGHT}" role="img"'
        f' aria-label="{escape(name)}">',
        f"<style>{STYLE}</style>",
        f'<text class="title" x="0" y="14">{escape(curve.title)}</text>',
        *_grid(curve, xs, top),
    ]
    for number, (variant, line) in enumerate(lines.items()):
        blocks += _line(variant, [(_across(x, xs), _down(y, top)) for x, y in line], number)
    return "\n".join([*blocks, "</svg>"]) + "\n"


def _x(series: Series, curve: Curve) -> float | None:
    name, _, x = series.figure.partition("@")
    return float(x) if name == curve.name and x else None


def _grid(curve: Curve, xs: Sequence[float], top: float) -> Iterator[str]:
    right, bottom = WIDTH - RIGHT, TITLE + HEIGHT - BOTTOM
    for part in (0, 0.5, 1):
        y = _down(part * top, top)
        yield f'<line class="grid" x1="{LEFT}" y1="{y}" x2="{right}" y2="{y}"/>'
        yield f'<text class="end" x="{LEFT - 8}" y="{y + 4}">{part * top:,.10g}</text>'
    for x in xs:
        yield f'<text class="middle" x="{_across(x, xs)}" y="{bottom + 18}">{x:,.10g}</text>'
    yield f'<text class="middle" x="{(LEFT + right) // 2}" y="{bottom + 38}">{escape(curve.along)}</text>'


def _line(variant: str, places: Sequence[tuple[int, int]], number: int) -> Iterator[str]:
    kind = f"line{number}"
    yield f'<polyline class="{kind}" style="fill:none" points="{" ".join(f"{x},{y}" for x, y in places)}"/>'
    for x, y in places:
        yield f'<circle class="{kind}" cx="{x}" cy="{y}" r="3.5"/>'
    x, y = places[-1]
    yield f'<text x="{x + 10}" y="{y + 4}">{escape(variant)}</text>'


def _across(x: float, xs: Sequence[float]) -> int:
    width = WIDTH - LEFT - RIGHT
    if len(xs) < 2:
        return LEFT + width // 2
    return LEFT + round(width * log10(x / xs[0]) / log10(xs[-1] / xs[0]))


def _down(y: float, top: float) -> int:
    height = HEIGHT - TOP - BOTTOM
    return TITLE + TOP + round(height * (1 - y / top))


def _round_up(value: float) -> float:
    """The next of 1, 2, 5, 10, 20, … that is not less."""
    power: float = 10.0 ** (len(f"{int(value)}") - 1) if value >= 1 else 0.1
    return next((factor * power for factor in (1, 2, 5, 10) if factor * power >= value), value)
