"""Time-ordered identifiers (UUIDv7, RFC 9562), from the standard library where it has them."""

from __future__ import annotations

import sys
from uuid import UUID

if sys.version_info >= (3, 14):
    from uuid import uuid7 as _uuid7
else:
    from uuid_utils.compat import uuid7 as _uuid7


def uuid7() -> UUID:
    """A new id, greater than those of earlier milliseconds. A name of our own, since migrations refer to it."""
    return _uuid7()
