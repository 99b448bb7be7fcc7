from tests.store.conftest import connect, db, patient, threads

__all__ = ["connect", "db", "patient", "threads"]
