"""Keys of limits: which runs share the slots of ``max_concurrency``."""

from __future__ import annotations

from .names import NAME_MAX

LIMIT_KEY_MAX = 4 * NAME_MAX + 1
"""Characters: a workflow's name in which each one may be escaped, a colon, and the key."""


def make_limit_key(workflow: str, key: str | None = None) -> str:
    """``<workflow>``, or ``<workflow>:<key>`` where runs are counted by a key of their own.

    Colons in the name are escaped: no key makes a workflow share the slots of another.
    """
    name = workflow.replace("%", "%25").replace(":", "%3A")
    return name if key is None else f"{name}:{key}"
