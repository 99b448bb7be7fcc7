"""What is to be told when it is true: once the caller's transaction has committed."""

from __future__ import annotations

from collections.abc import Callable

from django.db import transaction

from ..store.database import Database


def after_commit(db: Database, call: Callable[[], object]) -> None:
    """Call it after the commit, at once outside of a transaction, and never after a rollback.

    What it raises is logged: what it was to tell of is committed, and the caller must not take it for undone.
    """

    def tell() -> None:
        # Not handed on as it is: where a ``partial`` raises, Django fails to log it, since that has no name.
        call()

    transaction.on_commit(tell, using=db.alias, robust=True)
