"""Idempotency keys."""

from __future__ import annotations

from ..dialects import Dialect


def insert_key(d: Dialect) -> str:
    return f"""
        INSERT INTO django_durable_idempotencykey (workflow, key, key_hash, run_id, input_hash, expires_at)
        VALUES (%(workflow)s, %(key)s, %(key_hash)s, %(run_id)s, %(input_hash)s, {d.later("%(ttl)s")})
        ON CONFLICT (workflow, key_hash) DO NOTHING RETURNING id"""


def take_over_expired(d: Dialect) -> str:
    return _take_over(d, f"expires_at <= {d.now}")


def take_over_from(d: Dialect) -> str:
    """From the run ``gone``. Not from any that does not exist: who waits here for another to take the key over would
    look for that one's run in a snapshot that is older than it."""
    return _take_over(d, "run_id = %(gone)s")


def _take_over(d: Dialect, guard: str) -> str:
    return f"""
        UPDATE django_durable_idempotencykey
        SET run_id = %(run_id)s, input_hash = %(input_hash)s, expires_at = {d.later("%(ttl)s")}
        WHERE workflow = %(workflow)s AND key_hash = %(key_hash)s AND {guard} RETURNING id"""
