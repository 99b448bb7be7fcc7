"""What lists of hints are held against."""

from __future__ import annotations

from ...dialects import Dialect
from ..lines import QUEUED, queues_of


def queues(d: Dialect) -> str:
    """The queues in which runs are ready."""
    return f"""
        WITH RECURSIVE {queues_of("queues", QUEUED)}
        SELECT q.name FROM queues q WHERE q.name IS NOT NULL"""


def there(d: Dialect) -> str:
    """Which of ``ids`` are runs."""
    return f"SELECT r.id FROM django_durable_run r WHERE r.id {d.among('ids')}"
