"""What can be seen on a page, asked of the browser: contrast, and whether it is wider than the screen."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page

from tests.browser.colours import READING

AA = 4.5

CONTRASTS = (
    "() => {"
    + READING
    + """
    const ownText = (element) => [...element.childNodes]
        .filter((node) => node.nodeType === Node.TEXT_NODE).map((node) => node.data.trim()).join("");
    for (const element of document.querySelectorAll('[class*="durable-"], [class*="durable-"] *')) {
        const text = ownText(element);
        if (!text || !isSeen(element)) continue;
        const style = getComputedStyle(element);
        const ground = behind(element);
        const colour = inked(element instanceof SVGElement ? style.fill : style.color, element, ground);
        note(`${nameOf(element)}: ${text.slice(0, 30)}`, ratio(colour, ground));
    }
    return Object.fromEntries(found);
}
"""
)

SETTLED = """
() => {
    const moving = () => document.getAnimations().filter((one) => one instanceof CSSTransition);
    for (let now = moving(); now.length; now = moving()) for (const one of now) one.finish();
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


def is_dark(page: Page, selector: str = "body") -> bool:
    """Whether that is what is behind its text."""
    [red, green, blue, *_] = (int(part) for part in ground(page, selector).strip("rgba()").split(",")[:3])
    return bool(red + green + blue < 3 * 128)
