"""What `durable_doctor` finds out about Redis, and that it goes on without."""

from __future__ import annotations

import pytest
from django_redis import get_redis_connection

from tests.commands.conftest import Call
from tests.servers import RedisServer

pytestmark = pytest.mark.django_db(transaction=True)


def test_redis_that_does_not_answer(call: Call, redis_server: RedisServer) -> None:
    redis_server.stop()
    [problem] = call("durable_doctor", "--json").data["problems"]
    assert problem.startswith("redis could not be examined: ConnectionError")


@pytest.mark.usefixtures("redis_server")
def test_redis_that_evicts(call: Call) -> None:
    client = get_redis_connection("default")
    assert call("durable_doctor", "--json").data["redis"]["maxmemory_policy"] == "noeviction"
    client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        notes = call("durable_doctor", "--json").data["notes"]
    finally:
        client.config_set("maxmemory-policy", "noeviction")
    assert any("maxmemory-policy" in note for note in notes)
