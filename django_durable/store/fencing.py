"""Which leases are still ours: what every write of a worker is fenced by."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from ..core.flow.lease import Lease
from .database import Database, as_json
from .dialects import Dialect
from .sql import leases


def still_held(db: Database, held: Sequence[Lease]) -> set[UUID]:
    """Those of our tokens that still stand in their runs."""
    d = db.dialect
    return {d.read_key(row[0]) for row in db.rows(leases.still_held(d), claims=claim_rows(d, held))}


def claim_rows(d: Dialect, held: Sequence[Lease]) -> str:
    """Run ids and tokens for ``leases.CLAIM``."""
    return as_json([{"id": d.key(lease.run_id), "token": d.key(lease.token)} for lease in held])
