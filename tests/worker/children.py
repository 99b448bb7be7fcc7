"""Children of a supervisor that are dead, as far as it can see."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID, uuid4

from django_durable.models import Run
from django_durable.store.database import PrivateDatabase
from django_durable.worker.spawning import Child
from tests.store.rows import running

KILLED = -9


def dead(returncode: int = KILLED, *, age: float = 0.0, place: int | None = 0, is_draining: bool = False) -> Child:
    process = cast(Any, SimpleNamespace(pid=0, returncode=returncode))
    return Child(uuid4(), process, -1, -1, place, time.monotonic() - age, is_draining)


def held_by(db: PrivateDatabase, child: Child) -> UUID:
    """A run that it was working on."""
    held = running(db)
    Run.objects.filter(pk=held.run_id).update(leased_by=child.id)
    return held.run_id
