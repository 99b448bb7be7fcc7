from __future__ import annotations

import pytest
from django.conf import settings

from tests.processes import PATIENCE

# What only Redis has; its contract is in `test_contract.py`.
collect_ignore_glob = [] if settings.QUEUE == "redis" else ["test_redis_*.py"]


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Redis that this machine gives no core to for a while is not taken for one that is broken.

    The two are not alike: a queue keeps its clients by how long they wait.
    """
    monkeypatch.setattr("django_durable.queues.redis.PUSH_SECONDS", PATIENCE)
    monkeypatch.setattr("django_durable.queues.redis.HANG_SECONDS", 2 * PATIENCE)
