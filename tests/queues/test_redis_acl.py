"""The Redis user that docs/security.md tells operators to make may do all that the engine does, and no more."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings

from django_durable.core.ids import uuid7
from django_durable.queues.ready import Ready

pytestmark = pytest.mark.usefixtures("patient")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "security.md"
TOLD = re.compile(r"^user durable on >secret (.*)$", re.MULTILINE)


if settings.QUEUE == "redis":
    import redis
    from django_redis import get_redis_connection

    from django_durable.queues.redis import RedisQueue

    @pytest.fixture
    def queue() -> Iterator[RedisQueue]:
        """As that user."""
        found = TOLD.search(PAGE.read_text())
        assert found is not None
        get_redis_connection("default").execute_command(
            "ACL", "SETUSER", "durable", "reset", "on", ">secret", *found[1].split()
        )
        cache = settings.CACHES["default"]
        limited = {**cache, "LOCATION": cache["LOCATION"].replace("://", "://durable:secret@", 1)}
        with override_settings(CACHES={**settings.CACHES, "limited": limited}):
            queue = RedisQueue("limited", "durable")
            yield queue
            queue.close()
        get_redis_connection("default").execute_command("ACL", "DELUSER", "durable")

    def test_that_user_may_push_pop_count_peek_and_ask_for_health(queue: RedisQueue, caplog: Any) -> None:
        waiting, going_on = Ready(uuid7(), "acl", 0), Ready(uuid7(), "acl", 0, is_under_way=True)
        for _ in range(2):
            # Twice: what is refused is heard of with the next push.
            queue.push([waiting, going_on])
        assert queue.length("acl") == 4
        assert len(list(queue.peek("acl", 10))) == 1
        assert queue.pop(["acl"], 9, 1) == [going_on.id, going_on.id, waiting.id, waiting.id]
        assert queue.pop(["acl"], 9, 0.1) == []
        assert queue.health().ping >= 0
        assert "out of reach" not in caplog.text

    @pytest.mark.parametrize(("refused", "count"), [("blpop", 3), ("evalsha", 1)])
    def test_what_is_out_of_its_list_is_handed_on_where_half_of_a_pop_is_refused(
        queue: RedisQueue, caplog: Any, refused: str, count: int
    ) -> None:
        runs = [Ready(uuid7(), "acl", 0) for _ in range(8)]
        queue.push(runs)
        assert queue.pop(["acl"], 1, 0) == [runs[0].id]
        get_redis_connection("default").execute_command("ACL", "SETUSER", "durable", f"-{refused}")
        assert queue.pop(["acl"], 4, 1) == [run.id for run in runs[1:][:count]]
        assert get_redis_connection("default").llen("durable:{acl}:normal") == 7 - count
        assert not queue.gives_hints
        assert caplog.text.count("out of reach") == 1
        assert "is back" not in caplog.text

    def test_that_user_may_do_no_more(queue: RedisQueue) -> None:
        client = get_redis_connection("limited")
        assert client.ping()
        for command in (("KEYS", "*"), ("FLUSHALL",), ("SET", "durable:x", "1"), ("RPUSH", "others:x", "1")):
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*command)
