"""What people write: ``@durable_workflow`` functions, found again by their names."""

from .decorator import durable_workflow
from .definition import Workflow
from .registry import get_workflow

__all__ = ["Workflow", "durable_workflow", "get_workflow"]
