"""The workflows that this process knows, by name: ``core.registry`` with its types."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, cast

from ..core.registry import definitions
from ..exceptions import UnknownWorkflow

if TYPE_CHECKING:
    from .definition import Workflow


def workflows() -> dict[str, Workflow[Any, Any]]:
    """All workflows by name and by alias. Raises DuplicateWorkflow; needs Django's apps to be ready."""
    return cast("dict[str, Workflow[Any, Any]]", definitions())


def declared() -> dict[str, Workflow[Any, Any]]:
    """All workflows, each once, under the name that it has now. Raises DuplicateWorkflow."""
    return {name: workflow for name, workflow in workflows().items() if name == workflow.name}


def get_workflow(name: str) -> Workflow[Any, Any]:
    """The workflow that is, or was, called ``name``. Raises UnknownWorkflow, with names that are close."""
    known = workflows()
    if name not in known:
        raise UnknownWorkflow(name, difflib.get_close_matches(name, known, n=3))
    return known[name]
