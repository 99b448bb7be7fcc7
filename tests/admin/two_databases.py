"""Settings of a project that has a database for itself and one for the engine: ``DURABLE["DATABASE"]``.

Each has its own tables and no others, and no router says where a query goes: one that does not say it itself goes to
the project's, and finds nothing there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.settings import *  # noqa: F403
from tests.settings import BACKEND, DURABLE, database

ENGINE = "engine"
OURS = "django_durable"


class EachItsOwn:
    is_asked_by_a_test = False

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool:
        return (db == ENGINE) == (app_label == OURS)

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        """Where the rows are that a test makes and looks at, which is no part of what it shows."""
        return ENGINE if EachItsOwn.is_asked_by_a_test and model._meta.app_label == OURS else None

    db_for_write = db_for_read


@contextmanager
def as_a_test() -> Iterator[None]:
    """What is asked in here finds our tables by itself."""
    EachItsOwn.is_asked_by_a_test = True
    try:
        yield
    finally:
        EachItsOwn.is_asked_by_a_test = False


def _named(name: str) -> dict[str, object]:
    if BACKEND == "sqlite":
        file = Path(os.environ["DURABLE_TEST_FOLDER"]) / f"{name}.sqlite3"
        return {**database(), "NAME": file, "TEST": {"NAME": str(file.with_stem(f"test-{name}"))}}
    # On a server that is not only ours.
    return {**database(), "NAME": f"{name}_{os.getpid()}"}


DATABASES = {"default": _named("project"), ENGINE: _named(ENGINE)}
DATABASE_ROUTERS = ["tests.admin.two_databases.EachItsOwn"]
DURABLE = {**DURABLE, "QUEUE": "database", "DATABASE": ENGINE, "ADMIN_START": True}
