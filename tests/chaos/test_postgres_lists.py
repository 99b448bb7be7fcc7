"""What is left in Redis when every run is over is found, and what a worker takes out in time is nothing."""

from __future__ import annotations

from uuid import uuid4

import pytest
from django_redis import get_redis_connection

from tests.chaos.calming import SHARED, SLICE, left_in_lists
from tests.chaos.fleet import queue_of
from tests.processes import PATIENCE, Worker
from tests.servers import RedisServer

pytestmark = pytest.mark.django_db(transaction=True)

OWN = queue_of(0)
BRIEFLY = 0.1


def push(queue: str, band: str, count: int) -> None:
    """Ids of runs that nobody can claim."""
    get_redis_connection("default").rpush(f"durable:{{{queue}}}:{band}", *(str(uuid4()) for _ in range(count)))


@pytest.mark.usefixtures("redis_server")
def test_ids_that_nobody_takes_out_are_found_by_their_queue() -> None:
    assert left_in_lists([SHARED, OWN], BRIEFLY) == []
    push(OWN, "high", 1)
    push(OWN, "low", SLICE + 1)
    push("of nobody", "normal", 1)
    [text] = left_in_lists([SHARED, OWN], BRIEFLY)
    assert f"the queue '{OWN}' hold 1,002 ids" in text


@pytest.mark.usefixtures("redis_server")
def test_who_serves_the_queues_takes_all_ids_out_whether_they_lead_to_a_run_or_not() -> None:
    for queue in (SHARED, OWN):
        push(queue, "normal", 100)
    Worker("--queues", f"{SHARED},{OWN}")
    assert left_in_lists([SHARED, OWN], PATIENCE) == []


def test_a_redis_that_does_not_answer_is_no_empty_list(redis_server: RedisServer) -> None:
    redis_server.stop()
    [text] = left_in_lists([SHARED], BRIEFLY)
    assert text.startswith("I21: Redis could not be asked: ")
