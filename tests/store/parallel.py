"""Two sessions at once, driven statement by statement: threads, waits for a lock, hooks between statements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from django.db import connections

from django_durable.store.database import Database, PrivateDatabase, Row
from tests.processes import PATIENCE, wait_until

T = TypeVar("T")
SECONDS = PATIENCE


class Threads:
    """Threads whose Django connections are closed when their work is done; ``answer`` gives up after a while."""

    def __enter__(self) -> Threads:
        self._pool = ThreadPoolExecutor(8)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._pool.shutdown()

    def start(self, call: Callable[..., T], *args: Any, **kwargs: Any) -> Future[T]:
        def work() -> T:
            try:
                return call(*args, **kwargs)
            finally:
                connections.close_all()

        return self._pool.submit(work)


def answer(future: Future[T]) -> T:
    return future.result(SECONDS)


def session(db: Database) -> Any:
    """What the server knows this thread's connection by; None on SQLite, which lets nobody look at locks."""
    return db.connection.connection.info.backend_pid if db.connection.vendor == "postgresql" else None


def wait_until_blocked(watching: Database, holder: Any, *, seconds: float = SECONDS) -> None:
    """Until somebody waits for what session ``holder`` has locked. On SQLite writers stand in line by themselves."""
    if holder is not None:
        ask = "SELECT count(*) FROM pg_stat_activity WHERE %(holder)s = ANY(pg_blocking_pids(pid))"
        wait_until(lambda: watching.rows(ask, holder=holder)[0][0], seconds, f"somebody to wait for session {holder}")


class Hooked(PrivateDatabase):
    """Calls back before or after the first statement that contains a text: from inside the store's own transaction."""

    def __init__(self) -> None:
        super().__init__()
        self.before: dict[str, Callable[[], object]] = {}
        self.after: dict[str, Callable[[], object]] = {}

    def rows(self, sql: str, **parameters: Any) -> list[Row]:
        self._call(self.before, sql)
        rows = super().rows(sql, **parameters)
        self._call(self.after, sql)
        return rows

    @staticmethod
    def _call(hooks: dict[str, Callable[[], object]], sql: str) -> None:
        for text in [text for text in hooks if text in sql]:
            hooks.pop(text)()


@contextmanager
def row_locked(db: Database, run_id: Any) -> Iterator[None]:
    """An open transaction of ``db`` that holds the run's row (on SQLite: the write lock)."""
    with db.transaction():
        d = db.dialect
        db.rows(f"SELECT id FROM django_durable_run WHERE id = %(id)s {d.wait_lock}", id=d.key(run_id))
        yield
