"""Idempotency keys: the unique row decides who starts, also among transactions that are still open."""

from __future__ import annotations

from collections.abc import Collection
from hashlib import sha256
from uuid import UUID

from ..models import IdempotencyKey, Run
from .database import Database
from .sql import keys as sql


def hash_of(text: str) -> str:
    """What stands for a key, or for the input that came with it: it fits an index however long the text is."""
    return sha256(text.encode(errors="surrogatepass")).hexdigest()


def take_key(
    db: Database, workflow: str, key: str, key_hash: str, run_id: UUID, input_hash: str, ttl: float
) -> IdempotencyKey | None:
    """Take the key for ``run_id``, or the row of who has it. ``ttl`` is seconds. Needs a transaction.

    The INSERT waits for a transaction that is about to take the same key; an expired key is taken over by an
    UPDATE that is guarded by its expiry, so that of two who see it expired one wins. So is one whose run was deleted
    by hand or is in no backup (retention keeps it while the key stands), guarded by that run.
    """
    d = db.dialect
    values = {
        "workflow": workflow,
        "key": key,
        "key_hash": key_hash,
        "run_id": d.key(run_id),
        "input_hash": input_hash,
        "ttl": float(ttl),
    }
    while True:
        if db.rows(sql.insert_key(d), **values) or db.rows(sql.take_over_expired(d), **values):
            return None
        taken = IdempotencyKey.objects.using(db.alias).filter(workflow=workflow, key_hash=key_hash).first()
        if taken is None:
            continue  # retention removed the expired key between our statements: it is free again
        if Run.objects.using(db.alias).filter(pk=taken.run_id).exists():
            return taken
        if db.rows(sql.take_over_from(d), gone=d.key(taken.run_id), **values):
            return None


def give_back(db: Database, workflows: Collection[str], key_hash: str, run_id: UUID) -> None:
    """Free the key under these names again, in the transaction that took it for ``run_id``."""
    if workflows:
        taken = IdempotencyKey.objects.using(db.alias).filter(workflow__in=workflows, key_hash=key_hash)
        taken.filter(run_id=run_id).delete()


def hand_over(db: Database, run_id: UUID, to: UUID) -> None:
    """Let the keys that were taken for ``run_id`` in this transaction stand for another run: it never came to be."""
    IdempotencyKey.objects.using(db.alias).filter(run_id=run_id).update(run_id=to)


def free_key(db: Database, taken: IdempotencyKey) -> bool:
    """Free the key from the run that has it, under every name that it was taken under; False: another has it by now.

    Needs a transaction: until that ends, whoever else asks for the key waits. The DELETE waits for whoever has it under
    way, and is guarded by the run: of two who free it, one does.
    """
    same = IdempotencyKey.objects.using(db.alias).filter(key_hash=taken.key_hash, run_id=taken.run_id)
    deleted, _ = same.delete()
    return deleted > 0
