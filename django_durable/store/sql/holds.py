"""What is held."""

from __future__ import annotations

from ..dialects import Dialect


def held(d: Dialect) -> str:
    """An expression: all that is held, as JSON pairs of kind and name. NULL or no pair: nothing is."""
    return f"(SELECT {d.json_rows('h.kind', 'h.name')} FROM django_durable_hold h)"
