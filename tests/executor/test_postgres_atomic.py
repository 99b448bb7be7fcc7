"""Atomic steps on PostgreSQL: their transaction may last, as long as it does not idle."""

from __future__ import annotations

import pytest
from django.db import connection

from django_durable import Context, Retry, durable_workflow
from django_durable.testing import run_until_idle
from tests.executor.counting import count, during, short_lease

pytestmark = pytest.mark.django_db(transaction=True)


@durable_workflow(name="atomic.on_postgres", step_retry=Retry(max_attempts=1))
def counting(ctx: Context) -> int:
    return ctx.step("count", count, atomic=True)


def test_the_body_idles_no_longer_than_a_lease() -> None:
    seen: list[str] = []

    def look() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SHOW idle_in_transaction_session_timeout")
            seen.append(cursor.fetchone()[0])

    counting.enqueue()
    with during(look):
        run_until_idle()
    assert seen == ["30s"]


@short_lease()
def test_a_body_may_take_longer_than_a_lease() -> None:
    run = counting.enqueue()
    run_until_idle()
    assert run.result() == 1
