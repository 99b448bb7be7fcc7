"""What has been declared in this process, by name.

Names are resolved when they are first needed, since declaring works before Django's apps are ready.
"""

from __future__ import annotations

from typing import Protocol

from ..exceptions import DuplicateWorkflow
from .limits import Bounds


class Definition(Protocol):
    """A workflow, as far as finding it by name goes."""

    @property
    def name(self) -> str: ...

    @property
    def aliases(self) -> tuple[str, ...]: ...

    @property
    def where(self) -> str: ...

    @property
    def bounds(self) -> Bounds | None: ...

    def limit_key(self, text: str) -> str | None: ...


_unnamed: list[Definition] = []
_named: dict[str, Definition] = {}
_duplicates: list[DuplicateWorkflow] = []


def register(definition: Definition) -> None:
    _unnamed.append(definition)


def definitions() -> dict[str, Definition]:
    """All by name, and by the names that they had before. Raises DuplicateWorkflow, each time anew; needs Django's apps
    to be ready."""
    if duplicates():
        raise _duplicates[0]
    return _named


def duplicates() -> list[DuplicateWorkflow]:
    """Every name or alias that was declared twice."""
    while _unnamed:
        _take(_unnamed[0])
        _unnamed.pop(0)
    return _duplicates


def _take(definition: Definition) -> None:
    before = _named.get(definition.name)
    # A module that is imported again (a reload, a test) defines its workflow anew; it is the same one.
    if before is not None and before.where == definition.where:
        for name in (before.name, *before.aliases):
            if _named.get(name) is before:
                del _named[name]
    for name in (definition.name, *definition.aliases):
        known = _named.setdefault(name, definition)
        if known.where != definition.where:
            _duplicates.append(DuplicateWorkflow(name, known.where, definition.where))


def find(name: str) -> Definition | None:
    """What is declared under ``name`` here, or None: this process need not know every workflow."""
    return definitions().get(name)


def names_of(name: str) -> tuple[str, ...]:
    """All names of the workflow that is, or was, called ``name``; just that one where this process knows no such."""
    known = find(name)
    return (name,) if known is None else (known.name, *known.aliases)


def limits() -> dict[str, Bounds]:
    """The bounds by name, of those whose runs have a key by which they are limited."""
    found = {name: one.bounds for name, one in definitions().items()}
    return {name: bounds for name, bounds in found.items() if bounds is not None}
