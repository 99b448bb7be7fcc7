"""Atomic steps on SQLite: they hold its one write lock, in line with the process's other writers and not for long."""

from __future__ import annotations

import pytest

from django_durable import Context, Retry, durable_workflow
from django_durable.store.database import PrivateDatabase
from django_durable.testing import run_until_idle
from tests.app.models import Counter
from tests.executor.counting import count, during, short_lease
from tests.store.parallel import Threads, answer

pytestmark = pytest.mark.django_db(transaction=True)


@durable_workflow(name="atomic.on_sqlite", step_retry=Retry(max_attempts=1))
def counting(ctx: Context) -> int:
    return ctx.step("count", count, atomic=True)


@short_lease()
def test_a_body_that_holds_the_one_write_lock_for_too_long_is_rolled_back() -> None:
    run = counting.enqueue()
    run_until_idle()
    [step] = run.steps()
    assert step.error is not None
    assert step.error["type"] == "django_durable.exceptions.WriteLockHeldTooLong"
    assert not Counter.objects.exists()


def test_the_engine_s_writes_wait_in_line_behind_a_body() -> None:
    """Left to SQLite they would look for its lock now and then, and be refused after a while."""
    engine = PrivateDatabase()
    was_free: list[bool] = []

    def look() -> None:
        is_free = engine.lock.acquire(blocking=False)
        was_free.append(is_free)
        if is_free:
            engine.lock.release()

    with Threads() as threads, during(lambda: answer(threads.start(look))):
        run = counting.enqueue()
        run_until_idle()
        answer(threads.start(look))
    assert (run.result(), was_free) == (1, [False, True])
