"""What is asked beside the workers sees what it asks for."""

from __future__ import annotations

import threading

import pytest
from django.db import connection, transaction
from django.db.utils import OperationalError
from django_redis import get_redis_connection

from tests.app.models import Counter
from tests.chaos.afterwards import ServerLog, violated
from tests.servers import PostgresServer


@pytest.mark.django_db(transaction=True)
def test_a_deadlock_is_found_in_the_server_s_log(postgres_server: PostgresServer) -> None:
    first, second = (Counter.objects.create(name=name) for name in ("first", "second"))
    log = ServerLog(postgres_server.log)
    assert list(log.deadlocks()) == []
    both_hold_one = threading.Barrier(2)
    refused = []

    def take(one: Counter, other: Counter) -> None:
        try:
            with transaction.atomic():
                Counter.objects.select_for_update().get(pk=one.pk)
                both_hold_one.wait(10)
                Counter.objects.select_for_update().get(pk=other.pk)
        except OperationalError as error:
            refused.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=take, args=pair) for pair in ((first, second), (second, first))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(refused) == 1
    assert len(list(log.deadlocks())) == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("redis_server")
def test_what_is_no_run_in_a_list_is_found() -> None:
    assert list(violated()) == []
    get_redis_connection("default").rpush("durable:{default}:normal", "no run")
    assert any("I21" in text for text in violated())
