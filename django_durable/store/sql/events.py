"""Events on their way in."""

from __future__ import annotations

from ..dialects import Dialect

EVENT = {"run_id": "uuid", "name": "text", "payload": "text", "idempotency_key": "text"}


def insert_event(d: Dialect) -> str:
    """The id of the new event; no row where its idempotency key is taken. Waits for who holds that key uncommitted."""
    return f"""
        INSERT INTO django_durable_event (run_id, name, payload, idempotency_key, sent_at, consumed_by)
        SELECT n.run_id, n.name, n.payload, n.idempotency_key, {d.now}, '' FROM {d.record("n", EVENT)} WHERE 1 = 1
        ON CONFLICT DO NOTHING RETURNING id"""
