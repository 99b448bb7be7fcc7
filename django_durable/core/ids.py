"""Time-ordered identifiers (UUIDv7, RFC 9562), from the standard library where it has them."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from uuid import uuid7
else:
    from uuid_utils.compat import uuid7

__all__ = ["uuid7"]
