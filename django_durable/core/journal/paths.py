"""Which scopes a path lies in: ``import/rows[17]/save`` in ``import``, ``import/rows`` and ``import/rows[17]``."""

from __future__ import annotations

from collections.abc import Iterator


def above(path: str) -> Iterator[str]:
    """Every path that may be that of a scope around ``path``, the outermost first.

    A joiner is never part of a name. Whether ``rows[17]`` is a turn or an item of ``rows``, or a call with a key, only
    the journal tells.
    """
    for position, character in enumerate(path):
        if character in "/[":
            yield path[:position]


def scopes_of(path: str) -> Iterator[str]:
    """As ``above``, each with the joiner that ends it: ``import/``, ``import/rows[``, ``import/rows[17]/``."""
    for position, character in enumerate(path):
        if character in "/[":
            yield path[: position + 1]
