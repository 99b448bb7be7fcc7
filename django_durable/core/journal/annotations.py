"""What people are told about a run by name, as it is stored: one text for all of it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ..payloads.codec import encode

NOTES_MAX = 100
"""Annotations that a run keeps: those that were said last."""


def merged(stored: str | None, said: Mapping[str, str]) -> str:
    """The text to store once ``said`` (encoded values by name) has come to what is ``stored``."""
    notes = {} if stored is None else read_notes(stored)
    for name, text in said.items():
        notes.pop(name, None)
        notes[name] = text
    return f"[{','.join(f'[{encode(name)},{text}]' for name, text in list(notes.items())[-NOTES_MAX:])}]"


def read_notes(stored: str) -> dict[str, str]:
    """Encoded values by name: one that this code cannot read hides no other. Empty where the text is damaged."""
    try:
        return {str(name): json.dumps(value, separators=(",", ":")) for name, value in json.loads(stored)}
    except (ValueError, TypeError, RecursionError):
        return {}
