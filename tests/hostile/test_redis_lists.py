"""A Redis that somebody else writes to: he can make workers look for runs, and do nothing with them but what is due."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings
from django.test import override_settings
from django.utils import timezone
from django_redis import get_redis_connection
from redis import Redis
from redis.exceptions import NoPermissionError

from django_durable.core.ids import uuid7
from django_durable.models import Run
from django_durable.queues.ready import Ready
from django_durable.queues.redis import RedisQueue
from tests.acceptance.traces import stored
from tests.app.workflows import doubling, failing, listening
from tests.docs.reading import ROOT
from tests.hostile.corpus import TEXTS
from tests.invariants import violated
from tests.processes import PATIENCE, Worker, wait_until
from tests.servers import RedisServer
from tests.store.rows import make_run

pytestmark = pytest.mark.django_db(transaction=True)

BANDS = [f"durable:{{default}}:{band}" for band in ("high", "normal", "low")]
MANY = 2_500
DOCUMENT = ROOT / "docs" / "security.md"


def garbage() -> list[bytes]:
    texts = [text.encode("utf-8", "surrogatepass") for text in TEXTS.values()]
    return [*texts, b"", b"\xff\xfe\x00", os.urandom(64), b"x" * 10_000_000, b"0" * 31, b"g" * 32, b'{"id": 1}',
            b"*3\r\n$5\r\nRPUSH\r\n", b"EVAL 'return 1' 0", b"00000000-0000-0000-0000-000000000000"]  # fmt: skip


def redis() -> Any:
    return get_redis_connection("default")


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker(durable={"REAP_SECONDS": 1})
    worker.wait_for_start()
    yield worker
    assert worker.starts == 1
    assert "Traceback" not in worker.log
    assert violated(settled=60.0) == []
    assert worker.stop() == 0


def works_on() -> None:
    """A run of one who means well comes through all the same."""
    assert doubling.enqueue(4).result(timeout=PATIENCE) == 8


def wait_until_read() -> None:
    wait_until(lambda: not any(redis().llen(band) for band in BANDS), message="the lists to be read")


def garbage_is_dropped_and_not_repeated_in_the_log(worker: Worker) -> None:
    for band in BANDS:
        redis().rpush(band, *garbage())
    works_on()
    wait_until_read()
    works_on()
    assert "FORGED" not in worker.log
    assert "xxxx" not in worker.log
    assert "no run id; dropped" in worker.log


def ids_that_nobody_knows_cost_time_and_nothing_else() -> None:
    run = doubling.using(run_after=3600).enqueue(4)
    for band in BANDS:
        redis().rpush(band, *(str(uuid7()) for _ in range(MANY)))
    redis().rpush(BANDS[0], *([str(run.id)] * MANY))
    works_on()
    wait_until_read()
    assert run.refresh().run.claims == 0
    works_on()


def an_id_that_comes_very_often_is_worked_on_once() -> None:
    runs = [doubling.enqueue(number).id for number in range(20)]
    for band in BANDS:
        redis().rpush(band, *(list(map(str, runs)) * 100))
    these = Run.objects.filter(pk__in=runs)
    wait_until(lambda: these.filter(status="succeeded").count() == 20, message="all to succeed")
    wait_until_read()
    assert set(these.values_list("claims", flat=True)) == {1}


def spellings(run_id: UUID) -> list[str]:
    return [str(run_id), str(run_id).upper(), run_id.hex, f"{{{run_id}}}", f"urn:uuid:{run_id}"]


def what_is_not_queued_here_is_not_touched() -> None:
    """Whatever its status, queue or workflow: an id says no more than that somebody should look."""
    succeeded, failed, waiting = doubling.enqueue(4), failing.enqueue(), listening.enqueue()
    wait_until(lambda: succeeded.refresh().status == "succeeded", message="a success")
    wait_until(lambda: failed.refresh().status == "failed", message="a failure")
    wait_until(lambda: waiting.refresh().status == "waiting", message="a wait")
    paused = doubling.using(run_after=3600).enqueue(4)
    paused.pause()
    cancelled = doubling.using(run_after=3600).enqueue(4)
    cancelled.cancel()
    runs = [
        *(succeeded, failed, waiting, paused, cancelled),
        doubling.using(run_after=3600).enqueue(4),
        doubling.using(queue="vip").enqueue(4),
    ]
    # Queued now: one that has waited for two leases already is blocked, as nobody knows its workflow.
    unknown = make_run("queued", workflow="os.system", queued_at=timezone.now())
    ids = [*(run.id for run in runs), unknown.pk, make_run("blocked").pk]
    before = {run_id: stored(run_id) for run_id in ids}
    for band in BANDS:
        redis().rpush(band, *(text for run_id in ids for text in spellings(run_id)))
    works_on()
    wait_until_read()
    works_on()
    assert {run_id: stored(run_id) for run_id in ids} == before


def keys_of_other_types_only_take_the_hints_away() -> None:
    client = redis()
    makes: list[Any] = [
        lambda key: client.set(key, "a string"),
        lambda key: client.hset(key, "a", "b"),
        lambda key: client.sadd(key, "a"),
        lambda key: client.zadd(key, {"a": 1}),
        lambda key: client.xadd(key, {"a": "b"}),
    ]
    for make in makes:
        for band in BANDS:
            client.delete(band)
            make(band)
        works_on()
    client.delete(*BANDS)
    works_on()


def test_whatever_is_in_the_lists_costs_time_and_nothing_else(worker: Worker) -> None:
    """One worker for all of it: to start one takes longer."""
    garbage_is_dropped_and_not_repeated_in_the_log(worker)
    ids_that_nobody_knows_cost_time_and_nothing_else()
    an_id_that_comes_very_often_is_worked_on_once()
    what_is_not_queued_here_is_not_touched()
    keys_of_other_types_only_take_the_hints_away()


# --- with no more rights than it needs -------------------------------------------------------


@pytest.fixture
def guest(redis_server: RedisServer) -> Iterator[str]:
    """The address of a Redis for the user of docs/security.md, who is made as it says there."""
    [line] = re.findall(r"^user durable on (.*)$", DOCUMENT.read_text(), re.MULTILINE)
    rules = line.replace(">secret", ">s3cret").split()
    with redis_server.client() as client:
        client.execute_command("ACL", "SETUSER", "durable", "reset", "on", *rules)
        yield redis_server.url.replace("unix://", "unix://durable:s3cret@")
        client.execute_command("ACL", "DELUSER", "durable")


def test_the_documented_user_may_do_all_that_a_queue_does(guest: str, caplog: pytest.LogCaptureFixture) -> None:
    aliases = {**settings.CACHES, "guest": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": guest}}
    with override_settings(CACHES=aliases):
        queue = RedisQueue("guest", "durable")
        runs = [Ready(uuid7(), "default", priority) for priority in (1, 0, -1)]
        assert queue.pop(["default"], 10, 0.1) == []
        queue.push(runs[:2])
        queue.push(runs[2:])
        assert queue.length("default") == 3
        assert queue.pop(["default"], 10, 1) == [run.id for run in runs]
        assert queue.health().version
        assert queue.gives_hints
        queue.close()
    assert caplog.records == []


@pytest.mark.parametrize(
    "command",
    ["KEYS *", "CONFIG GET *", "FLUSHALL", "GET cache", "SET durable:x 1", "EVAL return(1) 0", "RPUSH sessions 1",
     "MONITOR", "ACL LIST", "SCRIPT FLUSH", "SAVE", "SUBSCRIBE all", "DEBUG SLEEP 0", "SHUTDOWN NOSAVE"],
)  # fmt: skip
def test_and_nothing_else(guest: str, command: str) -> None:
    with Redis.from_url(guest) as client, pytest.raises(NoPermissionError):
        client.execute_command(*command.split())
