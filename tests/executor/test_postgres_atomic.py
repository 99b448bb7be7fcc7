"""Atomic steps on PostgreSQL: their transaction may last, as long as it does not idle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from django_durable import Context, Retry, durable_workflow
from django_durable.testing import run_until_idle
from tests.app.models import Counter

pytestmark = pytest.mark.django_db(transaction=True)

during: list[Callable[[], object]] = []


def count() -> int:
    counter, _ = Counter.objects.get_or_create(name="a")
    counter.value += 1
    counter.save()
    for meanwhile in during:
        meanwhile()
    return counter.value


@durable_workflow(name="atomic.on_postgres", step_retry=Retry(max_attempts=1))
def counting(ctx: Context) -> int:
    return ctx.step("count", count, atomic=True)


@pytest.fixture(autouse=True)
def _nothing_happens_during() -> None:
    during.clear()


@pytest.fixture
def short_lease(settings: Any) -> None:
    """Every body takes longer."""
    settings.DURABLE = {**settings.DURABLE, "LEASE_SECONDS": 1e-6, "HEARTBEAT_SECONDS": 1e-7}


def test_the_body_idles_no_longer_than_a_lease() -> None:
    seen: list[str] = []

    def look() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SHOW idle_in_transaction_session_timeout")
            seen.append(cursor.fetchone()[0])

    during.append(look)
    counting.enqueue()
    run_until_idle()
    assert seen == ["30s"]


@pytest.mark.usefixtures("short_lease")
def test_a_body_may_take_longer_than_a_lease() -> None:
    run = counting.enqueue()
    run_until_idle()
    assert run.result() == 1
