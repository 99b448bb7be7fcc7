"""What has been declared in this process, by name.

Names are resolved when they are first needed, since declaring works before Django's apps are ready.
"""

from __future__ import annotations

from typing import Protocol

from ..exceptions import DuplicateWorkflow


class Definition(Protocol):
    """A workflow, as far as finding it by name goes."""

    @property
    def name(self) -> str: ...

    @property
    def where(self) -> str: ...


_unnamed: list[Definition] = []
_named: dict[str, Definition] = {}
_duplicates: list[DuplicateWorkflow] = []


def register(definition: Definition) -> None:
    _unnamed.append(definition)


def definitions() -> dict[str, Definition]:
    """All by name. Raises DuplicateWorkflow, each time anew; needs Django's apps to be ready."""
    if duplicates():
        raise _duplicates[0]
    return _named


def duplicates() -> list[DuplicateWorkflow]:
    """Every name that was declared twice."""
    while _unnamed:
        _take(_unnamed[0])
        _unnamed.pop(0)
    return _duplicates


def _take(definition: Definition) -> None:
    known = _named.setdefault(definition.name, definition)
    # A module that is imported again (a reload, a test) defines its workflow anew; it is the same one.
    if known.where == definition.where:
        _named[definition.name] = definition
    else:
        _duplicates.append(DuplicateWorkflow(definition.name, known.where, definition.where))


def find(name: str) -> Definition | None:
    """What is declared under ``name`` here, or None: this process need not know every workflow."""
    return definitions().get(name)
