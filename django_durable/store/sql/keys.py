"""Idempotency keys."""

from __future__ import annotations

from ..dialects import Dialect


def insert_key(d: Dialect) -> str:
    return f"""
        INSERT INTO django_durable_idempotencykey (workflow, key, key_hash, run_id, input_hash, expires_at)
        VALUES (%(workflow)s, %(key)s, %(key_hash)s, %(run_id)s, %(input_hash)s, {d.later("%(ttl)s")})
        ON CONFLICT (workflow, key_hash) DO NOTHING RETURNING id"""


def take_over_key(d: Dialect) -> str:
    return f"""
        UPDATE django_durable_idempotencykey
        SET run_id = %(run_id)s, input_hash = %(input_hash)s, expires_at = {d.later("%(ttl)s")}
        WHERE workflow = %(workflow)s AND key_hash = %(key_hash)s AND expires_at <= {d.now} RETURNING id"""
