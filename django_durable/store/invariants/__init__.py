"""Is what the tables say possible at all? Read-only, in windows of ids, so that no statement is long."""

from .catalogue import INVARIANTS, Invariant
from .finding import Finding, Violation
from .walking import WINDOW, Bounds, examine, violations

__all__ = ["INVARIANTS", "WINDOW", "Bounds", "Finding", "Invariant", "Violation", "examine", "violations"]
