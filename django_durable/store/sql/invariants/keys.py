"""Idempotency keys."""

from __future__ import annotations

from ...dialects import Dialect
from .windows import in_window, is_none, is_some, judged


def keys(d: Dialect) -> str:
    """I13: one unexpired idempotency key of a workflow -> one run, which exists, and is of that workflow."""
    older = f"""SELECT 1 FROM django_durable_idempotencykey o
        WHERE o.workflow = k.workflow AND o.key_hash = k.key_hash AND o.id < k.id AND o.expires_at > {d.now}"""
    run = "SELECT 1 FROM django_durable_run r WHERE r.id = k.run_id"
    # A key of a renamed workflow is taken under its old names too, beside the one that the run has.
    own = """SELECT 1 FROM django_durable_idempotencykey a
        WHERE a.workflow = r.workflow AND a.key_hash = k.key_hash AND a.run_id = k.run_id"""
    other = f"{run} AND r.workflow <> k.workflow AND {is_none(own)}"
    return judged(
        "k.id AS id, k.run_id AS run_id",
        f"""
        WHEN {is_some(older)} THEN 'a second run for one idempotency key of ' || k.workflow
        WHEN {is_none(run)} THEN 'no run, but an idempotency key of ' || k.workflow || ' names it'
        WHEN {is_some(other)} THEN 'not a run of ' || k.workflow || ', whose idempotency key names it'""",
        f"django_durable_idempotencykey k WHERE {in_window('k.id')} AND k.expires_at > {d.now}",
    )
