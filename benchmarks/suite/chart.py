"""The figures of a scenario as bars, one SVG for light and dark pages: no script, no fonts but the reader's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from .ledger import Ledger, Series
from .sample import FROM_RELEASE
from .systems import FLOOR, OWN

CHARTS = (
    ("S1_enqueue", "runs enqueued one by one, a second"),
    ("S2_drain", "one-step runs done by two worker processes, a second"),
    ("S3_steps", "steps journaled by one worker process, a second"),
    ("S9_mixed", "runs started and done side by side, a second"),
)
"""What is drawn: rates, of which more is better."""

WIDTH, LABELS, FIGURES = 860, 230, 230
WAITS = 0.8
"""So much of its rate, or less, is left to who waits for long before the first outcome: it is told."""
BAR, GAP, TITLE, BETWEEN = 16, 6, 22, 18
STYLE = """text { font: 13px system-ui, sans-serif; fill: #1f2328 } .title { font-weight: 600 }
.theirs { fill: #8c959f } .ours { fill: #0969da } .lossy { fill: #d0d7de }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .ours { fill: #4493f8 } .lossy { fill: #57606a } }"""


def chart(ledger: Ledger, lossy: Iterable[str]) -> str:
    """An SVG document. ``lossy`` names the systems that lose work when a machine does: their bars are pale."""
    blocks, y, pale = [], 0, frozenset(lossy)
    for figure, title in CHARTS:
        rows = sorted(_rows(ledger, figure), key=lambda series: -series.median)
        if not rows:
            continue
        blocks.append(f'<text class="title" x="0" y="{y + 14}">{escape(title)}</text>')
        y += TITLE
        for series in rows:
            blocks += _bar(series, y, rows[0].median, pale)
            y += BAR + GAP
        y += BETWEEN
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" role="img" aria-label="benchmark">'
    return "\n".join([head, f"<style>{STYLE}</style>", *blocks, "</svg>"]) + "\n"


def _rows(ledger: Ledger, figure: str) -> Iterator[Series]:
    """What an engine has, not what the machine could do: ``FLOOR`` is no rival."""
    return (series for series in ledger.series.values() if series.figure == figure and series.system != FLOOR)


def _told(series: Series) -> str:
    """Who waits for its next look at the queue, or has much in flight, gets less from the release on."""
    released = series.cost.get(FROM_RELEASE, series.median)
    more = f" ({released:,.0f} from the release)" if released < WAITS * series.median else ""
    return f"{series.median:,.0f}{more}"


def _bar(series: Series, y: int, longest: float, pale: frozenset[str]) -> Iterator[str]:
    width = max(1, round((WIDTH - LABELS - FIGURES) * series.median / longest))
    kind = "ours" if series.system == OWN else "lossy" if series.system in pale else "theirs"
    yield f'<text x="0" y="{y + 13}">{escape(f"{series.system} {series.variant}")}</text>'
    yield f'<rect class="{kind}" x="{LABELS}" y="{y}" width="{width}" height="{BAR}" rx="2"/>'
    yield f'<text x="{LABELS + width + 6}" y="{y + 13}">{_told(series)}</text>'
