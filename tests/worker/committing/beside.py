"""Commits that last until a test lets them go, and writes that are handed over meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any
from uuid import UUID

from django.db.utils import OperationalError

from django_durable.core.flow.lease import Lease
from django_durable.core.journal.journal import Write
from django_durable.store.database import PrivateDatabase
from django_durable.store.receipts import Receipt
from django_durable.worker.committer import Committer
from tests.processes import PATIENCE, wait_until
from tests.worker.committing.lining_up import Store, a_step, hear

BATCH = 3


class Commits(Store):
    """Each commit is under way until it is let go, and no run is in two of them."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: PrivateDatabase | None = None
        """Whose connection fails."""
        self.overlapping: set[UUID] = set()
        self.most = 0
        """How many were under way at a time."""
        self.is_held_up = True
        self._under_way: list[tuple[list[UUID], threading.Event]] = []
        self._lock = threading.Lock()

    def __call__(self, db: PrivateDatabase, writes: Sequence[tuple[Lease, Write]]) -> Any:
        own = [lease.run_id for lease, _ in writes], threading.Event()
        with self._lock:
            self.batches.append(own[0])
            for others, _ in self._under_way:
                self.overlapping.update(set(others) & set(own[0]))
            self._under_way.append(own)
            self.most = max(self.most, len(self._under_way))
            if not self.is_held_up:
                own[1].set()
        assert own[1].wait(PATIENCE)
        try:
            if db is self.refused:
                raise OperationalError("too many clients already")
            return self.write(db, writes)
        finally:
            with self._lock:
                self._under_way.remove(own)

    def finish(self, number: int) -> None:
        """Let the commit of this number go."""
        ids = self.batches[number]
        with self._lock:
            [event] = [event for batch, event in self._under_way if batch is ids]
        event.set()

    def finish_all(self) -> None:
        with self._lock:
            self.is_held_up = False
            for _, event in self._under_way:
                event.set()


def hand_over(committer: Committer, lease: Lease, write: Write | None = None) -> Future[Receipt]:
    """As who ends a run and goes on to others does; the answer is not waited for here."""
    told: Future[Receipt] = Future()
    committer.send(lease, write or a_step(), partial(hear, told), may_lead=False)
    return told


def begin(committer: Committer, commits: Commits, lease: Lease, write: Write | None = None) -> Future[Receipt]:
    """Hand over a write whose commit is then under way."""
    before = len(commits.batches)
    told = hand_over(committer, lease, write)
    wait_until(lambda: len(commits.batches) > before, message="the commit")
    return told


def ids(leases: Sequence[Lease]) -> list[UUID]:
    return [lease.run_id for lease in leases]
