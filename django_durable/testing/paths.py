"""A step as a test names it."""

from __future__ import annotations

from urllib.parse import unquote


def is_called(path: str, name: str) -> bool:
    """Whether ``name`` is this path, its last part, or that without its key: ``rows[17]/save[1]``, ``save``."""
    leaf = path.rpartition("/")[2]
    bare = leaf.partition("[")[0]
    # Names are stored with "%", "/" and brackets escaped; people write them as in the workflow.
    return name in (path, leaf, bare, unquote(bare))
