"""Events on their way in."""

from __future__ import annotations

from ..dialects import Dialect

EVENT = {"run_id": "uuid", "name": "text", "payload": "text", "idempotency_key": "text"}


def inbox(d: Dialect) -> str:
    """The status of a run, how many events it has not taken yet, and how many bytes these have: of ``most`` at most."""
    return f"""
        SELECT r.status, e.number, e.bytes
        FROM django_durable_run r CROSS JOIN (
            SELECT count(*) AS number, coalesce(sum(o.size), 0) AS bytes FROM (
                SELECT {d.size("payload")} AS size FROM django_durable_event
                WHERE run_id = %(run_id)s AND consumed_at IS NULL LIMIT %(most)s) AS o) AS e
        WHERE r.id = %(run_id)s"""


def insert_event(d: Dialect) -> str:
    """The id of the new event; no row where its idempotency key is taken. Waits for who holds that key uncommitted."""
    return f"""
        INSERT INTO django_durable_event (run_id, name, payload, idempotency_key, sent_at, consumed_by)
        SELECT n.run_id, n.name, n.payload, n.idempotency_key, {d.now}, '' FROM {d.record("n", EVENT)} WHERE 1 = 1
        ON CONFLICT DO NOTHING RETURNING id"""
