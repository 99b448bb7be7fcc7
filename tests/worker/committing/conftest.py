from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from django_durable.core.flow.lease import Lease
from django_durable.store.database import PrivateDatabase
from django_durable.worker import batch_writer
from django_durable.worker import committer as committer_module
from django_durable.worker.committer import Committer
from tests.store.rows import running
from tests.worker.committing.beside import BATCH, Commits
from tests.worker.committing.lining_up import Store


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    store = Store()
    monkeypatch.setattr(batch_writer, "write_batch", store)
    yield store
    store.is_open.set()


@pytest.fixture
def leaders() -> list[str]:
    """The threads that told of durable writes: those that led the commits."""
    return []


@pytest.fixture
def committer(db: PrivateDatabase, leaders: list[str]) -> Iterator[Committer]:
    committer = Committer(db, lambda *_: leaders.append(threading.current_thread().name))
    yield committer
    committer.close()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(24, thread_name_prefix="writer") as pool:
        yield pool


@pytest.fixture
def lease(connect: Callable[[], PrivateDatabase]) -> Callable[[], Lease]:
    db = connect()
    return lambda: running(db).lease


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> Iterator[Commits]:
    commits = Commits()
    monkeypatch.setattr(batch_writer, "write_batch", commits)
    monkeypatch.setattr(committer_module, "BATCH", BATCH)
    yield commits
    commits.finish_all()


@pytest.fixture
def slow(committer: Committer) -> Committer:
    """A committer whose commits take long, by what it goes by."""
    committer._relief._slow = -1.0
    return committer


@pytest.fixture
def leases(lease: Callable[[], Lease]) -> list[Lease]:
    return [lease() for _ in range(8)]
