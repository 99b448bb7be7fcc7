"""Redis that is down, hung, full of somebody else's data or asleep: costs time, never an error, never a run."""

from __future__ import annotations

import logging
import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings
from django_redis import get_redis_connection

from django_durable.core.ids import uuid7
from django_durable.queues import Ready, unawaited
from django_durable.queues import redis as redis_queue
from django_durable.queues.current import current_queue, let_go
from django_durable.queues.redis import RedisQueue
from tests.acceptance.traces import wait_for_success
from tests.app.workflows import doubling
from tests.processes import PATIENCE, Worker, wait_until
from tests.servers import RedisServer

PREFIX = "faults"
KEY = f"{PREFIX}:{{default}}:normal"
PUSH_SECONDS = redis_queue.PUSH_SECONDS
PUSH_LIMIT = 1.5
"""For a fifth of a second and a pause of this machine's; less than a pop may take."""
SOON = 20.0
"""Far less than PATIENCE, far more than anything takes that does not wait."""


@pytest.fixture(autouse=True)
def _lasting(patient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has failed leaves Redis alone until the test ends the pause (`end_pause`)."""
    monkeypatch.setattr(redis_queue, "BREAK_SECONDS", PATIENCE)


@pytest.fixture
def queue() -> Iterator[RedisQueue]:
    queue = RedisQueue("default", PREFIX)
    yield queue
    queue.close()


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Redis is tried again at once, by itself, and what it says is read at the next command."""
    monkeypatch.setattr(redis_queue, "BREAK_SECONDS", 0.05)
    monkeypatch.setattr(unawaited, "READ_SECONDS", 0.0)


def client() -> Any:
    return get_redis_connection("default")


def ready(priority: int = 0) -> Ready:
    return Ready(uuid7(), "default", priority)


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    begun = time.monotonic()
    result = call()
    return result, time.monotonic() - begun


def end_pause(queue: RedisQueue) -> None:
    """As when BREAK_SECONDS are over."""
    queue._broken_until = 0.0


def quickest_push(queue: RedisQueue) -> float:
    """Seconds of the quickest of three that each try: any other may have waited for this machine."""
    took = []
    for _ in range(3):
        end_pause(queue)
        result, seconds = timed(lambda: queue.push([ready()]))
        assert result is None
        took.append(seconds)
    return min(took)


def connections() -> set[str]:
    """By their numbers, of which Redis gives none twice: somebody else's may end meanwhile."""
    return {one["id"] for one in client().client_list()}


# --- down ------------------------------------------------------------------------------------


@pytest.mark.behaviour("RUN-10c")
@pytest.mark.parametrize("used", [False, True], ids=["never connected", "connected before"])
def test_a_push_while_redis_is_down_costs_next_to_nothing(
    queue: RedisQueue, redis_server: RedisServer, used: bool, caplog: pytest.LogCaptureFixture
):
    if used:
        queue.push([ready()])
        assert queue.length("default") == 1
    redis_server.kill()
    assert quickest_push(queue) < PUSH_LIMIT
    assert queue.gives_hints is False
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_while_redis_is_down_a_pop_waits_its_time_and_says_that_it_gives_no_hints(
    queue: RedisQueue, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(redis_queue, "BLOCK_SECONDS", PATIENCE)
    redis_server.kill()
    assert queue.pop(["default"], 10, 0.1) == []
    assert queue.gives_hints is False
    popped, took = timed(lambda: queue.pop(["default"], 10, 0.2))
    assert popped == []
    # The claimer asks the database after each pop: it must not spin.
    assert 0.15 <= took < SOON


def test_while_redis_is_down_nobody_can_tell_the_length(queue: RedisQueue, redis_server: RedisServer):
    redis_server.kill()
    assert queue.length("default") == 0
    assert queue.gives_hints is False


def test_the_health_of_a_redis_that_is_down_cannot_be_told(queue: RedisQueue, redis_server: RedisServer):
    """Whoever asks for it is a person: other calls hide the error, this one tells it."""
    redis_server.kill()
    with pytest.raises(redis_queue.redis.ConnectionError):
        queue.health()


def test_a_closed_queue_does_not_wait_for_redis(
    queue: RedisQueue, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(redis_queue, "BLOCK_SECONDS", PATIENCE)
    redis_server.kill()
    queue.pop(["default"], 10, 0.01)
    queue.close()
    assert timed(lambda: queue.pop(["default"], 10, PATIENCE))[1] < SOON


def test_when_redis_is_back_the_queue_is_back_by_itself(queue: RedisQueue, redis_server: RedisServer, hurried: None):
    queue.push([ready()])
    redis_server.kill()
    queue.push([ready()])
    assert queue.pop(["default"], 10, 0.01) == []
    redis_server.start()
    run = ready()

    def pushed_and_popped() -> Any:
        queue.push([run])
        return queue.pop(["default"], 10, 0.05)

    found = wait_until(pushed_and_popped, message="the queue to be back")
    assert set(found) == {run.id}
    assert queue.gives_hints


def test_the_log_says_once_that_redis_has_gone_and_once_that_it_is_back(
    queue: RedisQueue, redis_server: RedisServer, caplog: pytest.LogCaptureFixture
):
    """Not at every retry, which comes each second."""

    def retry() -> None:
        end_pause(queue)
        assert queue.pop(["default"], 10, 0.01) == []

    redis_server.kill()
    for _ in range(4):
        retry()
        assert queue.gives_hints is False
    redis_server.start()
    wait_until(lambda: retry() or queue.gives_hints, message="Redis to be back")
    retry()
    assert [record.getMessage().partition(",")[0] for record in caplog.records] == [
        "redis is out of reach",
        "redis is back",
    ]
    redis_server.kill()
    retry()
    assert len(caplog.records) == 3


def test_a_redis_that_only_refuses_pushes_is_not_back_with_every_pop(
    queue: RedisQueue, caplog: pytest.LogCaptureFixture
):
    client().set(KEY, "a string")
    for _ in range(3):
        end_pause(queue)
        assert queue.pop(["other"], 1, 0.01) == []
        queue.push([ready()])
    assert len(caplog.records) == 1


def test_a_restart_between_two_calls_is_not_noticed(queue: RedisQueue, redis_server: RedisServer, hurried: None):
    queue.push([ready()])
    assert len(queue.pop(["default"], 10, 1)) == 1
    redis_server.kill()
    redis_server.start()
    run = ready()

    def popped() -> Any:
        queue.push([run])
        return queue.pop(["default"], 10, 0.05)

    assert set(wait_until(popped, message="a pop after the restart")) == {run.id}


def test_a_redis_that_dies_under_a_waiting_pop_ends_it(queue: RedisQueue, redis_server: RedisServer):
    with ThreadPoolExecutor(1) as pool:
        popping = pool.submit(queue.pop, ["default"], 10, 100.0)
        wait_until(
            lambda: popping.done() or any(one["cmd"] == "blpop" for one in client().client_list()),
            message="the pop to wait in Redis",
        )
        redis_server.kill()
        assert popping.result(30) == []


# --- hung ------------------------------------------------------------------------------------


@pytest.fixture
def brief(_lasting: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A push gives up as soon as it does for users, and what Redis says is read at the next one."""
    monkeypatch.setattr(redis_queue, "PUSH_SECONDS", PUSH_SECONDS)
    monkeypatch.setattr(unawaited, "READ_SECONDS", 0.0)


def connect(queue: RedisQueue) -> None:
    """However often it gives up meanwhile."""

    def is_answered() -> bool:
        end_pause(queue)
        queue.push([ready()])
        return queue.gives_hints

    wait_until(is_answered, message="a push that is answered")


@pytest.fixture
def hung(redis_server: RedisServer) -> Iterator[Callable[[], None]]:
    process = redis_server._process
    assert process is not None
    yield lambda: process.signal(signal.SIGSTOP)
    process.signal(signal.SIGCONT)


@pytest.mark.parametrize("used", [False, True], ids=["never connected", "connected before"])
def test_a_push_to_a_redis_that_does_not_answer_gives_up_soon(
    queue: RedisQueue, brief: None, hung: Callable[[], None], used: bool
):
    if used:
        connect(queue)
    hung()
    if used:
        # Nobody waits for the reply to this one before the next one.
        queue.push([ready()])
    assert quickest_push(queue) < PUSH_LIMIT


@pytest.mark.parametrize("used", [False, True], ids=["never connected", "connected before"])
def test_one_push_waits_for_a_redis_that_does_not_answer_and_no_other(
    queue: RedisQueue, brief: None, hung: Callable[[], None], used: bool, monkeypatch: pytest.MonkeyPatch
):
    """Who has waited is told by its failure."""
    tries: list[Any] = []
    send = unawaited.Unawaited.send

    def noted(sender: unawaited.Unawaited, commands: Any, **options: Any) -> Any:
        tries.append(commands)
        return send(sender, commands, **options)

    if used:
        connect(queue)
    hung()
    if used:
        # Nobody waits for the reply to this one before the next one.
        queue.push([ready()])
        assert queue.gives_hints
    monkeypatch.setattr(unawaited.Unawaited, "send", noted)
    for _ in range(3):
        queue.push([ready()])
        # And the next ones do not even try.
        assert (queue.gives_hints, len(tries)) == (False, 1)


def test_the_health_of_a_redis_that_does_not_answer_cannot_be_told(
    queue: RedisQueue, hung: Callable[[], None], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(redis_queue, "HANG_SECONDS", 0.2)
    hung()
    with pytest.raises(redis_queue.redis.TimeoutError):
        queue.health()


def test_a_pop_from_a_redis_that_does_not_answer_gives_up_and_the_database_is_asked(
    queue: RedisQueue, hung: Callable[[], None], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(redis_queue, "BLOCK_SECONDS", 0.1)
    monkeypatch.setattr(redis_queue, "HANG_SECONDS", 0.2)
    hung()
    popped, took = timed(lambda: queue.pop(["default"], 10, 60))
    assert popped == []
    assert took < 20
    assert queue.gives_hints is False


# --- refusing --------------------------------------------------------------------------------


@contextmanager
def cannot_save(control: Any) -> Iterator[None]:
    """A snapshot has failed, and Redis takes nothing more that it would lose."""
    [before] = control.config_get("dir").values()
    folder = tempfile.mkdtemp()
    control.config_set("dir", folder)
    # A folder that is gone keeps root out too.
    os.rmdir(folder)
    control.config_set("save", "3600 1000000")
    control.bgsave()
    wait_until(lambda: control.info("persistence")["rdb_last_bgsave_status"] == "err", message="the snapshot to fail")
    yield
    control.config_set("save", "")
    control.config_set("dir", before)


@contextmanager
def is_a_replica(control: Any) -> Iterator[None]:
    """Of a primary that is away, as after a failover that this process has not heard of."""
    with socket.socket() as nobody:
        # Bound and not listening: nobody else gets the port.
        nobody.bind(("127.0.0.1", 0))
        control.replicaof("127.0.0.1", nobody.getsockname()[1])
        yield
        control.replicaof("NO", "ONE")


@contextmanager
def wants_a_password(control: Any) -> Iterator[None]:
    """Since a moment ago; who was connected before has to connect again."""
    control.config_set("requirepass", "secret")
    control.client_kill_filter(_type="normal", skipme=True)
    yield
    control.config_set("requirepass", "")


REFUSALS: dict[str, Callable[[Any], AbstractContextManager[None]]] = {
    "MISCONF": cannot_save,
    "read only replica": is_a_replica,
    "authenticat": wants_a_password,
}
"""By what is said of it, whichever version says it."""


@pytest.fixture
def control(redis_server: RedisServer) -> Iterator[Any]:
    """One connection, which stays."""
    with redis_server.client().client() as control:
        assert control.ping()
        yield control
        control.config_set("requirepass", "")
        control.config_set("save", "")
        control.replicaof("NO", "ONE")


@pytest.fixture
def current(_lasting: None) -> Iterator[RedisQueue]:
    """The queue of this process, made anew: its connections keep the patience that they were made with."""
    let_go()
    queue = current_queue()
    assert isinstance(queue, RedisQueue)
    yield queue
    let_go()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("said", REFUSALS)
def test_a_redis_that_refuses_costs_hints_and_no_run(
    control: Any, current: RedisQueue, caplog: pytest.LogCaptureFixture, said: str
):
    durable = "durable:{default}:normal"
    with REFUSALS[said](control):
        runs = []
        for _ in range(4):
            end_pause(current)
            runs.append(doubling.enqueue(4))
        [warning] = caplog.records
        assert said in warning.getMessage()
        assert control.llen(durable) == 0
        worker = Worker()
        wait_for_success(*(run.id for run in runs))
        worker.wait_for_log("redis is out of reach")
        assert worker.stop() == 0
        assert "Traceback" not in worker.log
    end_pause(current)
    run = doubling.enqueue(4)
    assert control.lrange(durable, 0, -1) == [str(run.id).encode()]
    assert [record.getMessage().partition(",")[0] for record in caplog.records] == [
        "redis is out of reach",
        "redis is back",
    ]


# --- foreign data ----------------------------------------------------------------------------


GARBAGE = [b"", b"no id", b"\xff\xfe", b"0" * 31, b"x" * 100_000, b'{"id": 1}']


def test_what_is_no_id_is_dropped(queue: RedisQueue, caplog: pytest.LogCaptureFixture):
    """Whoever can write to Redis can only say ids; everything else is for the log, without what it said."""
    run = ready()
    client().rpush(KEY, *GARBAGE, str(run.id))
    popped = wait_until(lambda: queue.pop(["default"], 100, 0.05), message="the id")
    assert popped == [run.id]
    assert queue.pop(["default"], 100, 0.01) == []
    assert len(caplog.records) == len(GARBAGE)
    assert not [record for record in caplog.records if "xxx" in record.getMessage()]
    assert queue.gives_hints


def test_a_key_of_another_type_is_as_good_as_no_redis(queue: RedisQueue, caplog: pytest.LogCaptureFixture):
    client().set(KEY, "a string")
    queue.push([ready()])
    assert queue.gives_hints is False
    assert queue.pop(["default"], 10, 0.01) == []
    assert len(caplog.records) == 1
    assert client().get(KEY) == b"a string"


def test_a_pop_of_a_key_of_another_type_raises_nothing(queue: RedisQueue):
    client().set(KEY, "a string")
    assert queue.pop(["default"], 10, 0.05) == []
    assert queue.gives_hints is False
    end_pause(queue)
    assert queue.length("default") == 0
    assert queue.gives_hints is False
    client().delete(KEY)
    end_pause(queue)
    run = ready()
    queue.push([run])
    assert queue.pop(["default"], 10, 1) == [run.id]


def test_a_list_does_not_grow_for_ever(queue: RedisQueue, monkeypatch: pytest.MonkeyPatch):
    """And keeps those that were there first: the sweep finds the others."""
    monkeypatch.setattr(redis_queue, "LIST_LIMIT", 5)
    monkeypatch.setattr(unawaited, "READ_SECONDS", 0.0)
    runs = [ready() for _ in range(8)]
    queue.push(runs[:4])
    queue.push(runs[4:])
    # How long the list was after a push is read at the next one.
    queue.push([ready()])
    assert queue.length("default") == 5
    assert queue.pop(["default"], 10, 1) == [run.id for run in runs[:5]]


def test_it_is_cut_once_for_all_that_was_pushed_meanwhile(queue: RedisQueue, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(redis_queue, "LIST_LIMIT", 2)
    monkeypatch.setattr(unawaited, "READ_SECONDS", 60.0)
    client().config_resetstat()
    for _ in range(6):
        queue.push([ready()])
    [line] = queue._sender()._idle
    line._next_look = 0.0
    queue.push([ready()])
    assert client().info("commandstats")["cmdstat_ltrim"]["calls"] == 1
    assert queue.length("default") == 2


@pytest.mark.parametrize(("seconds", "unread"), [(60.0, 3), (0.0, 1)], ids=["soon", "later"])
def test_replies_are_looked_at_now_and_then(
    queue: RedisQueue, monkeypatch: pytest.MonkeyPatch, seconds: float, unread: int
):
    """The first one of a connection is waited for, the last one is for the next push to read."""
    monkeypatch.setattr(unawaited, "READ_SECONDS", seconds)
    for _ in range(4):
        queue.push([ready()])
    [line] = queue._sender()._idle
    assert len(line.unread) == unread
    assert queue.length("default") == 4


def test_a_process_that_was_forked_pushes_on_a_connection_of_its_own(queue: RedisQueue):
    """On its parent's the two would read each other's replies."""
    queue.push([ready()])
    assert queue._unawaited is not None
    [line] = queue._unawaited._idle
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            queue.push([ready()])
            [mine] = queue._unawaited._idle
            os._exit(0 if mine is not line else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    queue.push([ready()])
    assert queue._unawaited._idle == [line]
    assert queue.length("default") == 3


def test_pushes_take_their_turns_on_one_connection(queue: RedisQueue):
    before = connections()
    for _ in range(5):
        queue.push([ready()])
    assert len(connections() - before) == 1


def test_redis_holds_nothing_but_ids(queue: RedisQueue):
    runs = [ready(priority) for priority in (-1, 0, 1)]
    queue.push(runs)
    keys = sorted(key.decode() for key in client().keys("*"))
    assert keys == sorted(f"{PREFIX}:{{default}}:{band}" for band in redis_queue.BANDS)
    held = {value.decode() for key in keys for value in client().lrange(key, 0, -1)}
    assert held == {str(run.id) for run in runs}


# --- idle ------------------------------------------------------------------------------------


def test_an_idle_pop_is_no_failure_however_short_the_alias_waits(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """redis-py 8 gives up an answer after 5 s by default, an alias may say less: idle pops would look like faults."""
    monkeypatch.setattr(redis_queue, "BLOCK_SECONDS", 0.6)
    default = settings.CACHES["default"]
    # Another url, because django-redis keeps a pool for each url.
    location = f"{default['LOCATION']}&client_name=short"
    short = {**default, "LOCATION": location, "OPTIONS": {"SOCKET_TIMEOUT": 0.1}}
    with override_settings(CACHES={**settings.CACHES, "short": short}):
        assert get_redis_connection("short").connection_pool.connection_kwargs["socket_timeout"] == 0.1
        queue = RedisQueue("short", PREFIX)
        popped, took = timed(lambda: queue.pop(["default"], 10, 60))
        queue.close()
    assert popped == []
    assert 0.55 <= took < 20
    assert queue.gives_hints
    assert not caplog.records


@pytest.mark.parametrize("seconds", [0.001, 0.0005, 1e-6])
def test_an_idle_pop_that_waits_for_less_than_redis_counts_is_no_failure(
    queue: RedisQueue, caplog: pytest.LogCaptureFixture, seconds: float
):
    """Redis 6.2 takes a millisecond and less for none, which is for ever: until the socket's time is up."""
    assert queue.pop(["default"], 1, seconds) == []
    assert queue.gives_hints
    assert not caplog.records


def test_the_sockets_have_the_time_that_their_use_needs(queue: RedisQueue):
    """Whatever the cache alias says: its own sockets serve a cache, and are shared by all who use it."""
    queue.push([ready()])
    queue.pop(["default"], 1, 0.01)
    pools = [one.connection_pool for one in queue._clients.values()]
    given = sorted(pool.connection_kwargs["socket_timeout"] for pool in pools)
    assert given == [redis_queue.PUSH_SECONDS, redis_queue.BLOCK_SECONDS + redis_queue.HANG_SECONDS]
    assert given[1] > redis_queue.BLOCK_SECONDS
    assert client().connection_pool not in pools


def test_a_closed_queue_keeps_no_connection(queue: RedisQueue):
    before = connections()
    queue.push([ready()])
    queue.pop(["default"], 1, 0.01)
    made = connections() - before
    assert len(made) == 2
    queue.close()
    wait_until(lambda: not made & connections(), message="the connections to be gone")


def test_threads_may_push_at_once(queue: RedisQueue):
    runs = [[ready() for _ in range(20)] for _ in range(8)]
    barrier = threading.Barrier(8)

    def push(mine: list[Ready]) -> None:
        barrier.wait(PATIENCE)
        for run in mine:
            queue.push([run])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(push, runs))
    assert queue.length("default") == 160
    assert set(queue.pop(["default"], 1000, 1)) == {run.id for mine in runs for run in mine}


# --- health ----------------------------------------------------------------------------------


def test_health(queue: RedisQueue, monkeypatch: pytest.MonkeyPatch):
    seconds = count()
    monkeypatch.setattr(redis_queue, "clock", SimpleNamespace(monotonic=lambda: next(seconds)))
    health = queue.health()
    assert health.ping == 1
    assert health.version is not None
    assert int(health.version.partition(".")[0]) >= 6
    assert health.used_memory is not None
    assert health.used_memory > 0
    assert (health.policy, health.may_evict) == ("noeviction", False)


@pytest.mark.parametrize(("policy", "may_evict"), [("allkeys-lru", True), ("volatile-ttl", True), (None, False)])
def test_a_redis_that_may_throw_the_queue_away(policy: str | None, may_evict: bool):
    assert redis_queue.Health(0.001, "7.2.4", policy, None).may_evict is may_evict


def test_health_is_asked_for_while_the_queue_leaves_redis_alone(queue: RedisQueue):
    """After a failure pushes and pops do so for a while; a person wants to know how it is now."""
    client().set(KEY, "a string")
    queue.push([ready()])
    assert not queue.gives_hints
    assert queue.health().version
