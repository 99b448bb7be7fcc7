from tests.store.conftest import connect, db, threads

__all__ = ["connect", "db", "threads"]
