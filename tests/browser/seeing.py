"""What can be seen on a page, asked of the browser: contrast, and whether it is wider than the screen."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page

AA = 4.5

CONTRASTS = """
() => {
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const known = new Map();
    const read = (colour) => {
        if (!known.has(colour)) known.set(colour, drawn(colour));
        return [...known.get(colour)];
    };
    const drawn = (colour) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
        return [r, g, b, a / 255];
    };
    const over = ([r, g, b, a], under) => [r, g, b].map((part, i) => part * a + under[i] * (1 - a));
    const luminance = (colour) => {
        const [r, g, b] = colour.map((part) => {
            const share = part / 255;
            return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const grounds = new Map();
    const behind = (element) => {
        if (!element) return read("Canvas").slice(0, 3);
        if (!grounds.has(element)) {
            const layer = read(getComputedStyle(element).backgroundColor);
            grounds.set(element, over(layer, behind(element.parentElement)));
        }
        return grounds.get(element);
    };
    const ownText = (element) => [...element.childNodes]
        .filter((node) => node.nodeType === Node.TEXT_NODE).map((node) => node.data.trim()).join("");
    const found = new Map();
    for (const element of document.querySelectorAll('[class*="durable-"], [class*="durable-"] *')) {
        const text = ownText(element);
        if (!text || !element.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
        const style = getComputedStyle(element);
        const ground = behind(element);
        const ink = read(element instanceof SVGElement ? style.fill : style.color);
        for (let at = element; at; at = at.parentElement) ink[3] *= getComputedStyle(at).opacity;
        const colour = over(ink, ground);
        const [light, dark] = [luminance(colour), luminance(ground)].sort((a, b) => b - a);
        const ratio = (light + 0.05) / (dark + 0.05);
        const name = `${element.tagName.toLowerCase()}.${[...element.classList].join(".")}`;
        const parent = element.parentElement.className?.baseVal ?? element.parentElement.className;
        const key = `${name} in .${parent}: ${text.slice(0, 30)}`;
        if (!found.has(key) || ratio < found.get(key)) found.set(key, ratio);
    }
    return Object.fromEntries(found);
}
"""

SETTLED = """
async () => {
    const moving = () => document.getAnimations().filter((one) => one instanceof CSSTransition);
    for (let now = moving(); now.length; now = moving()) await Promise.allSettled(now.map((one) => one.finished));
}
"""
"""The admin lets the colours of links change over in a moment, and what is asked for in between is neither of them.
One change brings another about: what a link hands on to what is in it."""

TOO_WIDE = """
() => {
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width) return [];
    const scrolls = (element) => {
        for (let at = element.parentElement; at && at !== document.body; at = at.parentElement) {
            if (getComputedStyle(at).overflowX !== "visible") return true;
        }
        return false;
    };
    const right = (element) => {
        const content = document.createRange();
        content.selectNodeContents(element);
        return Math.max(element.getBoundingClientRect().right, content.getBoundingClientRect().right);
    };
    const wide = [...document.body.querySelectorAll("*")]
        .filter((element) => right(element) > width + 1 && !scrolls(element))
        .map((element) => `${element.tagName.toLowerCase()}#${element.id}.${element.getAttribute("class")}`);
    return [`${document.documentElement.scrollWidth} of ${width}`, ...wide.slice(-5)];
}
"""
"""The page itself must not scroll sideways; a table in a box that does is fine."""


def contrasts(page: Page) -> dict[str, float]:
    """The contrast of each of our texts with what is behind it, once every colour has come to where it goes."""
    page.evaluate(SETTLED)
    found: dict[str, float] = page.evaluate(CONTRASTS)
    return found


def too_faint(page: Page) -> dict[str, float]:
    """Our texts that not everybody can read."""
    return faint_of(contrasts(page))


def faint_of(found: dict[str, float]) -> dict[str, float]:
    return {text: round(ratio, 2) for text, ratio in found.items() if ratio < AA}


def too_wide(page: Page) -> list[str]:
    """How wide the page is where it is wider than the screen, and what of it sticks out."""
    found: list[str] = page.evaluate(TOO_WIDE)
    return found


def ground(page: Page, selector: str) -> Any:
    """The colour behind an element's text."""
    return page.locator(selector).first.evaluate("(element) => getComputedStyle(element).backgroundColor")
