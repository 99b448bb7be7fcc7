"""Text from outside made fit to be looked at: what is invisible or turns the line around is spelled out."""

from __future__ import annotations

import re
from itertools import zip_longest

# Control characters, halves of characters (which no response can encode), line separators, bidi overrides.
_DECEPTIVE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_DIGITS = re.compile("([0-9]{1,18})")


def visible(text: str) -> str:
    """The text with deceptive characters as escapes. It is not HTML: templates and ``format_html`` escape it."""
    return _DECEPTIVE.sub(_spelled_out, text)


def cut(text: str, most: int) -> str:
    """The beginning of the text, at most ``most`` characters and an ellipsis, which stands by no blank: there a line
    could end."""
    return text if len(text) <= most else f"{text[:most].rstrip()}…"


def cut_front(text: str, most: int) -> str:
    """The end of the text: in a traceback the last lines matter."""
    return text if len(text) <= most else f"…{text[-most:]}"


def natural(text: str) -> list[tuple[str, int]]:
    """What to sort by so that 10 comes after 9."""
    parts = _DIGITS.split(text)
    return [(word, int(number or 0)) for word, number in zip_longest(parts[::2], parts[1::2], fillvalue="")]


def _spelled_out(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
