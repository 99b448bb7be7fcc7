"""Which workflows this process knows, by name. Names are resolved when they are first needed, since importing
workflows works before Django's apps are ready."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from ..exceptions import DuplicateWorkflow, UnknownWorkflow

if TYPE_CHECKING:
    from .definition import Workflow

_unnamed: list[Workflow[Any, Any]] = []
_named: dict[str, Workflow[Any, Any]] = {}


def register(workflow: Workflow[Any, Any]) -> None:
    _unnamed.append(workflow)


def workflows() -> dict[str, Workflow[Any, Any]]:
    """All workflows by name. Raises DuplicateWorkflow; needs Django's apps to be ready."""
    while _unnamed:
        workflow = _unnamed[0]
        known = _named.get(workflow.name)
        # A module that is imported again (a reload, a test) defines its workflow anew; it is the same one.
        if known is not None and known.where != workflow.where:
            _unnamed.pop(0)
            raise DuplicateWorkflow(workflow.name, known.where, workflow.where)
        _named[workflow.name] = workflow
        _unnamed.pop(0)
    return _named


def get_workflow(name: str) -> Workflow[Any, Any]:
    """The workflow called ``name``. Raises UnknownWorkflow, with names that are close."""
    found = workflows().get(name)
    if found is None:
        raise UnknownWorkflow(name, difflib.get_close_matches(name, workflows(), n=3))
    return found
