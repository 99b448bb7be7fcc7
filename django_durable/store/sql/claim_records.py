"""Which worker claimed a run when: kept beside the claims, and marked where the reaper takes a lease away."""

from __future__ import annotations

from ..dialects import Dialect

KEPT = 50
"""Claims of a run, besides its first. Places go round: what is claimed anew writes over what is oldest."""

CLAIMED = {"id": "uuid", "claims": "integer"}
TAKEN = CLAIMED | {"started_by": "uuid", "started_at": "timestamp with time zone"}


def keep(d: Dialect, claimed: str) -> str:
    """Note that ``worker`` has made the claims ``c`` in ``claimed`` (CLAIMED), as far as it still holds them: one that
    was frozen since the claim must not write over what others have noted."""
    worker = d.typed("worker", "uuid")
    held = f"r.id = c.id AND r.status = 'running' AND r.claims = c.claims AND r.leased_by = {worker}"
    return f"""
        INSERT INTO django_durable_claimrecord (run_id, place, number, worker_id, claimed_at)
        SELECT c.id, {_place("c.claims")}, c.claims, {worker}, {d.now}
        FROM {claimed} JOIN django_durable_run r ON {held} WHERE 1 = 1
        ON CONFLICT (run_id, place) DO UPDATE SET number = excluded.number, worker_id = excluded.worker_id,
            claimed_at = excluded.claimed_at, lost_at = NULL"""


def lose(d: Dialect, taken: str) -> str:
    """Note that the leases of the claims ``c`` in ``taken`` (TAKEN) were taken away.

    A claim by an earlier release, which has kept nothing of it, stays unknown.
    """
    return f"""
        INSERT INTO django_durable_claimrecord (run_id, place, number, worker_id, claimed_at, lost_at)
        SELECT c.id, {_place("c.claims")}, c.claims, coalesce(k.worker_id, c.started_by),
            coalesce(k.claimed_at, c.started_at), {d.now}
        FROM {taken} LEFT JOIN django_durable_claimrecord k
            ON k.run_id = c.id AND k.place = {_place("c.claims")} AND k.number = c.claims
        WHERE k.number IS NOT NULL OR (c.claims = 1 AND c.started_by IS NOT NULL)
        ON CONFLICT (run_id, place) DO UPDATE SET lost_at = excluded.lost_at"""


def _place(number: str) -> str:
    return f"{number} %% {KEPT}"
