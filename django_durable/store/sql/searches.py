"""Finding runs by what people know of them."""

from __future__ import annotations


def keyed(*key_hashes: str) -> str:
    """The runs with one of these idempotency keys, of whatever workflow. ``key_hashes``: placeholders of their hashes.

    The unique index begins with the workflow's name: a look into it for each name that has keys, whether or not
    anybody has registered it, and one more for each key.
    """
    looks = (
        f"""
            SELECT (
                SELECT k.run_id FROM django_durable_idempotencykey k
                WHERE k.workflow = n.name AND k.key_hash = {key_hash})
            FROM names n WHERE n.name IS NOT NULL"""
        for key_hash in key_hashes
    )
    return f"""
        WITH RECURSIVE names (name) AS (
            SELECT min(k.workflow) FROM django_durable_idempotencykey k
            UNION ALL
            SELECT (SELECT min(k.workflow) FROM django_durable_idempotencykey k WHERE k.workflow > n.name)
            FROM names n WHERE n.name IS NOT NULL),
        found (run_id) AS ({" UNION ALL ".join(looks)})
        SELECT run_id FROM found WHERE run_id IS NOT NULL"""
