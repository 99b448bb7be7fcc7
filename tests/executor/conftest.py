from __future__ import annotations

import asyncio
from typing import Any

import pytest

from django_durable.executor import async_attempt
from django_durable.executor.tasks_made import TaskFactory


@pytest.fixture(params=["any loop", "a worker's loop"])
def on_each_loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts begin on the loop that is there, and on one that counts its tasks, as a worker's does."""
    if request.param == "any loop":
        return
    begin = async_attempt.begin_attempt

    def begin_counted(*args: Any) -> Any:
        loop = asyncio.get_running_loop()
        if loop.get_task_factory() is None:
            loop.set_task_factory(TaskFactory())
        return begin(*args)

    monkeypatch.setattr(async_attempt, "begin_attempt", begin_counted)
