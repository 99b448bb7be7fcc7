"""Figures on a page, held against what they count."""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.docs.reading import ROOT

SMALL = (
    *("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"),
)
WORDS = {**{word: number for number, word in enumerate(SMALL, 1)}, "half": 0.5, "a third": 1 / 3, "a fifth": 0.2}
NUMBER = rf"(\d[\d,]*(?:\.\d+)?|{'|'.join(WORDS)})"


class Figure(NamedTuple):
    """``words``: as they stand on the page, with ``#`` where there is a number; ``true``: those numbers, as counted
    ``by`` what."""

    page: str
    words: str
    true: tuple[float, ...]
    by: str


def wrong(figure: Figure, text: str | None = None) -> list[str]:
    """What is wrong with it, in words, wherever the page has it. ``text``: in place of the page's."""
    told = said(figure.page, figure.words, text)
    if not told:
        return [f"{figure.page} says nowhere {figure.words!r}: {_shown(figure.true)}, by {figure.by}"]
    return [
        f"{figure.page} says {quoted!r}, and it is {_shown(figure.true)}, by {figure.by}"
        for quoted, numbers in told
        if numbers != figure.true
    ]


def said(page: str, words: str, text: str | None = None) -> list[tuple[str, tuple[float, ...]]]:
    """Wherever it says so: just how, and which numbers it names."""
    text = (ROOT / page).read_text() if text is None else text
    pattern = re.escape(words).replace(r"\#", NUMBER).replace(r"\ ", r"\s+")
    return [
        (" ".join(match[0].split()), tuple(map(_number, match.groups())))
        for match in re.finditer(rf"(?<![\w,]){pattern}(?!\w)", text, re.IGNORECASE)
    ]


def _number(word: str) -> float:
    if word.lower() in WORDS:
        return WORDS[word.lower()]
    plain = word.replace(",", "")
    return float(plain) if "." in plain else int(plain)


def _shown(numbers: tuple[float, ...]) -> str:
    return " and ".join(f"{number:,.15g}" for number in numbers)
