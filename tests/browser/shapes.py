"""What can be seen on a page beside its texts: the contrast of shapes and borders, and of the ring around what has the
focus, with what is beside them. Asked of the browser, of the styles that it has computed."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping

from playwright.sync_api import Locator, Page

from tests.browser.colours import READING
from tests.browser.seeing import SETTLED

LEAST = 3.0
"""WCAG 1.4.11, for what is needed to understand a picture, to find a control and to know where the keyboard is."""

SHAPES = (
    "() => {"
    + READING
    + """
    const OURS = '[class*="durable-"]';
    // Lines to measure by, and the same again in each row: what they say stands beside them in figures.
    const MEASURES = ".durable-chart-grid, .durable-line, defs *";
    const all = (selector) => [...document.querySelectorAll(selector)].filter(isSeen);
    const isInk = (paint) => paint !== "none" && !paint.startsWith("url(");
    const hatch = document.querySelector(".durable-hatch");

    // --- shapes
    for (const shape of all(`${OURS} :is(rect, circle, path, line)`)) {
        if (shape.matches(MEASURES) || shape.closest(".base-svgs") || shape.getAttribute("d") === "") continue;
        const style = getComputedStyle(shape), beside = [behind(shape)];
        // A bar may lie across time that is drawn short.
        if (hatch && shape.closest(".durable-track")) beside.push(read(getComputedStyle(hatch).fill).slice(0, 3));
        const inks = [style.fill, parseFloat(style.strokeWidth) ? style.stroke : "none"].filter(isInk);
        for (const ground of beside)
            note(nameOf(shape), Math.max(1, ...inks.map((ink) => ratio(inked(ink, shape, ground), ground))));
    }

    // --- a chart's shapes against each other: they stand upon each other, and the line crosses them
    for (const chart of all(".durable-chart-picture")) {
        const part = (name) => chart.querySelector(`.durable-chart-${name}:not([d=""])`);
        const bars = ["failed", "cancelled", "succeeded"].map(part).filter(Boolean), line = part("started");
        const paint = (shape, what) => read(getComputedStyle(shape)[what]).slice(0, 3);
        for (const bar of bars) {
            if (line) note(`started over ${bar.className.baseVal}`, ratio(paint(line, "stroke"), paint(bar, "fill")));
            for (const other of bars.slice(bars.indexOf(bar) + 1)) {
                const fills = [bar, other].map((each) => paint(each, "fill"));
                const parted = [bar, other].filter((each) => getComputedStyle(each).stroke !== "none")
                    .map((each) => Math.min(...fills.map((fill) => ratio(paint(each, "stroke"), fill))));
                note(`${other.className.baseVal} on ${bar.className.baseVal}`, Math.max(ratio(...fills), ...parted));
            }
        }
    }
    for (const key of all(".durable-chart-legend li")) {
        const style = getComputedStyle(key, "::before"), ground = behind(key);
        note(`key of ${key.className}`, Math.max(ratio(over(read(style.backgroundColor), ground), ground),
            parseFloat(style.borderTopWidth) ? ratio(over(read(style.borderTopColor), ground), ground) : 1));
    }

    // --- borders
    const edge = (element, side) => {
        const style = getComputedStyle(element), ground = behind(element.parentElement);
        const hasOne = parseFloat(style[`border${side}Width`]) && style[`border${side}Style`] !== "none";
        return hasOne ? ratio(inked(style[`border${side}Color`], element, ground), ground) : 1;
    };
    for (const pill of all(".durable-pill")) note(nameOf(pill), edge(pill, "Top"));
    for (const tab of all(".durable-tabs [aria-current]")) note("the tab of this page", edge(tab, "Bottom"));
    // What has words of its own to be known by needs no border; of a switch one has to see how it stands.
    const CONTROLS = "select, textarea, input:not([type=hidden], [type=checkbox], [type=submit]), [aria-pressed]";
    for (const control of all(`${OURS} :is(${CONTROLS})`))
        note(nameOf(control), Math.max(edge(control, "Top"), ratio(behind(control), behind(control.parentElement))));

    // --- how far something is: what is full against what is empty, and where all of it ends
    for (const bar of all(`:is(progress, meter):is(${OURS}, ${OURS} *)`)) {
        const style = getComputedStyle(bar);
        const isOurs = style.appearance === "none";
        note(`${nameOf(bar)}: full`, isOurs ? ratio(read(style.color).slice(0, 3), behind(bar)) : 1);
        note(`${nameOf(bar)}: its end`, edge(bar, "Top"));
    }
    return Object.fromEntries(found);
}
"""
)

RING = """
    const ringOf = (element) => {
        const style = getComputedStyle(element);
        if (style.outlineStyle === "none" || !parseFloat(style.outlineWidth)) return 1;
        // The browser's own has two colours, one of which is seen on whatever ground.
        if (style.outlineStyle === "auto") return 21;
        const ground = parseFloat(style.outlineOffset) < 0 ? behind(element) : behind(element.parentElement);
        return ratio(inked(style.outlineColor, element, ground), ground);
    };
"""

RINGS = (
    "(told) => {"
    + READING
    + RING
    + """
    const STOPS = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']";
    const kinds = new Set(told);
    for (const stop of document.querySelectorAll(STOPS)) {
        // A table has hundreds of one kind.
        const kind = stop.parentElement && nameOf(stop);
        if (kinds.has(kind) || stop.disabled || !isSeen(stop)) continue;
        kinds.add(kind);
        stop.focus({ preventScroll: true, focusVisible: true });
        note(kind, document.activeElement === stop ? ringOf(stop) : 1);
        stop.blur();
    }
    return Object.fromEntries(found);
}
"""
)

HERE = (
    "() => {"
    + READING
    + RING
    + """
    const here = document.activeElement;
    if (here === document.body) return ["", 21];
    const box = here.getClientRects()[0] ?? here.getBoundingClientRect();
    // What is larger than the window is looked at where it is in it.
    const middle = (from, to, most) => (Math.max(from, 0) + Math.min(to, most)) / 2;
    const [x, y] = [middle(box.left, box.right, innerWidth), middle(box.top, box.bottom, innerHeight)];
    const top = document.elementFromPoint(x, y);
    const isCovered = !top || !(here.contains(top) || top.contains(here) || here.labels?.[0]?.contains(top));
    return [nameOf(here), isCovered ? 0 : ringOf(here)];
}
"""
)

PIXELS = """
async ([picture, shares]) => {
    const image = await createImageBitmap(await (await fetch(picture)).blob());
    const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d");
    canvas.drawImage(image, 0, 0);
    const at = (share) => canvas.getImageData(share * image.width, image.height / 2, 1, 1).data;
    return shares.map((share) => [...at(share)].slice(0, 3));
}
"""


def shapes(page: Page) -> dict[str, float]:
    """The contrast of each of our shapes and borders by what it is; of those that are alike the least."""
    page.evaluate(SETTLED)
    found: dict[str, float] = page.evaluate(SHAPES)
    return found


def rings(page: Page, known: Iterable[str] = ()) -> dict[str, float]:
    """The contrast of the ring around each kind of thing on the page that Tab comes to, but for those that are
    ``known``; 1 where there is none."""
    page.keyboard.press("Tab")
    found: dict[str, float] = page.evaluate(RINGS, list(known))
    return found


def ring_here(page: Page) -> tuple[str, float]:
    """What has the focus, and the contrast of the ring around it, 0 where something else lies over it; where nothing
    has it, an empty name."""
    name, contrast = page.evaluate(HERE)
    return name, contrast


def pixels(bare: Page, element: Locator, *shares: float) -> list[str]:
    """The colours in which an element is painted, so far from its left to its right. ``bare`` is a page without a
    policy, which reads the picture."""
    picture = b64encode(element.screenshot()).decode()
    found = bare.evaluate(PIXELS, [f"data:image/png;base64,{picture}", shares])
    return [f"rgb({red}, {green}, {blue})" for red, green, blue in found]


def lost_of(found: Mapping[str, float]) -> dict[str, float]:
    return {name: round(contrast, 2) for name, contrast in found.items() if contrast < LEAST}
