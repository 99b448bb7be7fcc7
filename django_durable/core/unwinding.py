"""The exception that unwinds a workflow when its attempt is over.

It derives from BaseException so that a workflow's ``except Exception`` cannot swallow it. What ends an attempt is
what the flow has recorded as its outcome: this carries nothing, and it never leaves the executor.
"""

from __future__ import annotations


class Unwind(BaseException):
    """Raised at a ``ctx`` call, and at every later one of the same attempt."""
