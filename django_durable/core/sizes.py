"""How large a stored value is: the log says so before it gets too large."""

from __future__ import annotations

import logging
from uuid import UUID

logger = logging.getLogger("django_durable.payloads")


def note_size(text: str, warn_at: int | None, run_id: UUID, what: str) -> str:
    """``text`` as it is. Says in the log that it takes more than ``warn_at`` bytes; it is ASCII, as ``encode`` makes
    it."""
    if warn_at is not None and len(text) > warn_at:
        logger.warning("large payload run=%s what=%r bytes=%d", run_id, what, len(text))
    return text
