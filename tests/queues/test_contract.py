"""One contract for both queues: hints about ready runs, never lost time, never an error for who pushes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from statistics import median
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings
from django.test import override_settings

from django_durable.core.ids import uuid7
from django_durable.queues import Queue, Ready
from django_durable.queues.current import current_queue, queue_kind
from django_durable.queues.database import DatabaseQueue
from tests.processes import PATIENCE, wait_until

LONG = PATIENCE
SOON = 20.0
"""Far less than LONG, far more than anything takes that does not wait."""


def ready(queue: str = "default", priority: int = 0) -> Ready:
    return Ready(uuid7(), queue, priority)


def ids(runs: list[Ready]) -> list[Any]:
    return [run.id for run in runs]


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    begun = time.monotonic()
    result = call()
    return result, time.monotonic() - begun


class QueueContract:
    """What holds for every queue; a class per queue says how to make one and whether it keeps lists."""

    keeps_lists: bool

    @pytest.fixture
    def make(self) -> Iterator[Callable[[], Queue]]:
        made: list[Queue] = []

        def one() -> Queue:
            made.append(self.new())
            return made[-1]

        yield one
        for queue in made:
            queue.close()

    @pytest.fixture
    def queue(self, make: Callable[[], Queue]) -> Queue:
        return make()

    def new(self) -> Queue:
        raise NotImplementedError

    def expected(self, runs: list[Ready]) -> list[Any]:
        """What a pop returns of these: nothing where there is no list, and the database is asked instead."""
        return ids(runs) if self.keeps_lists else []

    def test_it_is_a_queue(self, queue: Queue):
        assert queue.gives_hints is self.keeps_lists
        assert queue.length("default") == 0

    def test_what_was_pushed_comes_out_in_its_order(self, queue: Queue):
        runs = [ready() for _ in range(5)]
        queue.push(runs[:3])
        queue.push(runs[3:])
        assert queue.pop(["default"], 10, LONG) == self.expected(runs)
        assert queue.pop(["default"], 10, 0.01) == []

    def test_what_is_under_way_comes_out_before_what_waits_to_begin(self, queue: Queue):
        waiting, urgent = ready(), ready(priority=9)
        first, second = (Ready(uuid7(), "default", 0, is_under_way=True) for _ in range(2))
        queue.push([waiting, first, urgent, second])
        assert queue.pop(["default"], 10, LONG) == self.expected([urgent, first, second, waiting])

    def test_who_asks_for_no_queue_gets_nothing_and_waits_no_longer_than_he_said(self, queue: Queue):
        queue.push([ready()])
        _, took = timed(lambda: [queue.pop([], 10, 0.05) for _ in range(3)])
        assert 0.05 <= took < SOON
        assert queue.gives_hints is self.keeps_lists

    def test_no_more_comes_out_than_asked_for(self, queue: Queue):
        runs = [ready() for _ in range(5)]
        queue.push(runs)
        popped = []
        for limit in (1, 3, 3):
            popped.append(queue.pop(["default"], limit, 0.05))
        assert popped == [self.expected(runs[:1]), self.expected(runs[1:4]), self.expected(runs[4:])]

    def test_the_bands_come_out_best_first_over_all_queues(self, queue: Queue):
        low, normal, high = ready("a", -100), ready("b", 0), ready("a", 1)
        higher, other = ready("b", 100), ready("a", 0)
        queue.push([low, normal, high, higher, other])
        assert queue.pop(["a", "b"], 10, LONG) == self.expected([high, higher, other, normal, low])

    def test_only_the_asked_queues_are_touched(self, queue: Queue):
        mine, theirs = ready("mine"), ready("theirs")
        queue.push([mine, theirs])
        assert queue.pop(["mine"], 10, LONG) == self.expected([mine])
        assert queue.length("theirs") == (1 if self.keeps_lists else 0)
        assert queue.length("mine") == 0

    def test_the_length_is_that_of_all_bands(self, queue: Queue):
        queue.push([ready(priority=priority) for priority in (-1, 0, 0, 1)])
        assert queue.length("default") == (4 if self.keeps_lists else 0)
        assert queue.length("other") == 0

    def test_an_id_may_be_pushed_often(self, queue: Queue):
        """The claim makes one winner; the list may hold an id many times."""
        run = ready()
        for _ in range(3):
            queue.push([run])
        assert set(queue.pop(["default"], 10, LONG)) == set(self.expected([run]))

    def test_to_push_nothing_is_nothing(self, queue: Queue):
        queue.push([])
        assert queue.pop(["default"], 10, 0.01) == []

    def test_who_does_not_wait_has_the_answer_at_once(self, queue: Queue):
        """A blocking call whose time is up in no time takes a tenth of a second in Redis."""
        queue.pop(["default"], 3, 0.0)
        answers = [timed(lambda: queue.pop(["default"], 3, 0.0)) for _ in range(10)]
        assert all(popped == [] for popped, _ in answers)
        # The quickest of them: any other may have waited for this machine.
        assert min(took for _, took in answers) < 0.08

    def test_an_idle_pop_returns_after_its_timeout(self, queue: Queue):
        popped, took = timed(lambda: queue.pop(["default"], 10, 0.2))
        assert popped == []
        assert 0.15 <= took < SOON

    def test_after_a_push_has_been_answered_an_idle_pop_waits_again(self, queue: Queue):
        queue.push([ready()])
        queue.pop(["default"], 10, LONG)
        assert timed(lambda: queue.pop(["default"], 10, 0.2))[1] >= 0.15

    def test_a_pop_that_waits_returns_at_a_push(self, queue: Queue):
        run = ready()
        with ThreadPoolExecutor(1) as pool:
            begun = time.monotonic()
            waiting = pool.submit(pop_until_found, queue, is_found=self.keeps_lists)
            queue.push([run])
            assert waiting.result(LONG) == self.expected([run])
        assert time.monotonic() - begun < SOON

    def test_many_who_pop_at_once_get_each_id_once(self, make: Callable[[], Queue]):
        runs = [ready() for _ in range(100)]
        queues = [make() for _ in range(4)]
        queues[0].push(runs)
        barrier = threading.Barrier(4)

        def work(queue: Queue) -> list[Any]:
            barrier.wait(PATIENCE)
            mine: list[Any] = []
            while found := queue.pop(["default"], 7, 0.05):
                mine += found
            return mine

        with ThreadPoolExecutor(4) as pool:
            popped = [one for found in pool.map(work, queues) for one in found]
        assert sorted(popped) == sorted(self.expected(runs))

    def test_a_pop_that_waits_returns_when_the_queue_is_closed(self, queue: Queue):
        started = threading.Event()

        def pop() -> Any:
            started.set()
            return queue.pop(["default"], 10, LONG)

        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(pop)
            assert started.wait(PATIENCE)
            queue.close()
            assert waiting.result(SOON) == []

    def test_a_closed_queue_may_be_closed_again(self, queue: Queue):
        queue.close()
        queue.close()


def pop_until_found(queue: Queue, *, is_found: bool) -> list[Any]:
    """A pop may return empty-handed before its time is up (it blocks in slices): then it is called again."""
    if not is_found:
        return queue.pop(["default"], 10, LONG)
    return wait_until(lambda: queue.pop(["default"], 10, LONG), LONG, "a hint")


class TestDatabaseQueue(QueueContract):
    keeps_lists = False

    def new(self) -> Queue:
        return DatabaseQueue()

    def test_a_push_before_the_pop_is_not_forgotten(self, queue: Queue):
        """Else a run that was enqueued while the claimer was busy would wait for the next poll."""
        queue.push([ready()])
        popped, took = timed(lambda: queue.pop(["default"], 10, LONG))
        assert popped == []
        assert took < SOON


if settings.QUEUE == "redis":
    import redis

    from django_durable.queues.redis import RedisQueue

    @pytest.mark.usefixtures("patient")
    class TestRedisQueue(QueueContract):
        keeps_lists = True

        def new(self) -> Queue:
            return RedisQueue("default", "contract")

        @pytest.mark.parametrize(("limit", "count"), [(10, 5), (3, 3), (1, 1)])
        def test_a_pop_that_waits_returns_with_all_that_was_pushed_together(
            self, queue: Queue, waiting: Callable[[Queue, int], Future[list[UUID]]], limit: int, count: int
        ):
            runs = [ready(priority=9), *(ready() for _ in range(4))]
            popping = waiting(queue, limit)
            queue.push(runs)
            assert popping.result(LONG) == ids(runs[:count])
            assert queue.length("default") == 5 - count

        def test_a_redis_that_forgets_the_script_under_a_pop_that_waits_costs_no_id(
            self, queue: Queue, waiting: Callable[[Queue, int], Future[list[UUID]]]
        ):
            from django_redis import get_redis_connection

            runs = [ready() for _ in range(3)]
            popping = waiting(queue, 10)
            get_redis_connection("default").script_flush()
            queue.push(runs)
            assert popping.result(LONG) == ids(runs)
            assert queue.gives_hints

        def test_a_pop_waits_no_longer_than_it_is_to(self, queue: Queue):
            """Redis alone looks ten times a second whose time is up."""
            answers = [timed(lambda: queue.pop(["default"], 3, 0.01)) for _ in range(10)]
            assert all(popped == [] for popped, _ in answers)
            assert median(took for _, took in answers) < 0.08

        def test_what_is_out_of_its_list_is_handed_on_though_the_connection_ends_behind_it(
            self, queue: Queue, monkeypatch: pytest.MonkeyPatch
        ):
            from redis.connection import AbstractConnection

            read, heard = AbstractConnection.read_response, []

            def break_off(connection: Any, *args: Any, **options: Any) -> Any:
                heard.append(reply := read(connection, *args, **options))
                if len(heard) == 2:
                    raise redis.ConnectionError("in the midst")
                return reply

            queue.pop(["default"], 1, 0.01)
            runs = [ready() for _ in range(3)]
            queue.push(runs)
            monkeypatch.setattr(AbstractConnection, "read_response", break_off)
            assert queue.pop(["default"], 3, LONG) == ids(runs[:1])
            monkeypatch.setattr(AbstractConnection, "read_response", read)
            # Nobody reads what is left in that connection.
            wait_until(lambda: queue.gives_hints, LONG, "Redis to be asked again")
            queue.push(others := [ready()])
            assert wait_until(lambda: queue.pop(["default"], 3, LONG), LONG, "a hint") == ids(others)

        def test_a_pop_of_which_redis_is_not_reminded_is_late_and_no_failure(
            self, queue: Queue, monkeypatch: pytest.MonkeyPatch
        ):
            def fail(client: object) -> None:
                raise redis.ConnectionError("just now")

            monkeypatch.setattr(redis.Redis, "ping", fail)
            runs = [ready()]
            assert queue.pop(["default"], 3, 0.01) == []
            queue.push(runs)
            assert queue.pop(["default"], 3, LONG) == ids(runs)
            assert queue.gives_hints

        def test_what_comes_when_a_pop_has_waited_in_vain_is_not_lost(
            self, queue: Queue, monkeypatch: pytest.MonkeyPatch
        ):
            """Between the end of the wait and the look behind it somebody may push."""
            wait = RedisQueue._wait

            def in_vain(queue: RedisQueue, pool: Any, seconds: float, commands: Any, replies: Any) -> None:
                wait(queue, pool, 0.01, [("BLPOP", "an empty one", 0.01), commands[1]], replies)

            monkeypatch.setattr(RedisQueue, "_wait", in_vain)
            runs = [ready() for _ in range(3)]
            queue.push(runs)
            assert queue.pop(["default"], 10, LONG) == ids(runs[:9])

        @pytest.fixture
        def waiting(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Queue, int], Future[list[UUID]]]]:
            """A pop of up to so many that waits in Redis, for as long as it takes."""
            from django_redis import get_redis_connection

            monkeypatch.setattr("django_durable.queues.redis.BLOCK_SECONDS", LONG)
            server = get_redis_connection("default")
            place = str(server.connection_pool.connection_kwargs.get("db", 0))

            def waits() -> bool:
                return any("b" in one["flags"] and one["db"] == place for one in server.client_list())

            with ThreadPoolExecutor(1) as pool:

                def begin(queue: Queue, limit: int) -> Future[list[UUID]]:
                    popping = pool.submit(queue.pop, ["default"], limit, LONG)
                    wait_until(waits, message="it to wait")
                    return popping

                yield begin

        def test_who_peeks_sees_all_and_takes_nothing(self, queue: Any):
            """Garbage too, which a pop drops: it is what some look for."""
            from django_redis import get_redis_connection

            runs = [ready(priority=priority) for priority in (1, 0, 0, 0, -1)]
            queue.push([*runs, ready("other")])
            get_redis_connection("default").rpush("contract:{default}:low", b"\xff")
            seen = [str(run.id).encode() for run in runs]
            for _ in range(2):
                assert list(queue.peek("default", 2)) == [seen[:1], seen[1:3], seen[3:4], [seen[4], b"\xff"]]
            assert list(queue.peek("nobody's", 2)) == []
            assert queue.pop(["default"], 10, LONG) == ids(runs)


REDIS_CACHE = {"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": "redis://127.0.0.1:1/0"}}
OTHER_CACHE = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}


@pytest.mark.parametrize(
    ("caches", "durable", "kind"),
    [
        (REDIS_CACHE, {}, "redis"),
        (OTHER_CACHE, {}, "database"),
        ({}, {}, "database"),
        (REDIS_CACHE, {"QUEUE": "database"}, "database"),
        (OTHER_CACHE, {"QUEUE": "redis"}, "redis"),
        ({**OTHER_CACHE, "queue": REDIS_CACHE["default"]}, {"REDIS_CACHE": "queue"}, "redis"),
        (REDIS_CACHE, {"REDIS_CACHE": "missing"}, "database"),
    ],
)
def test_the_settings_name_the_queue(caches: dict[str, Any], durable: dict[str, Any], kind: str):
    with override_settings(CACHES=caches, DURABLE=durable):
        assert queue_kind() == kind
        assert type(current_queue()).__name__.lower() == f"{kind}queue"
        assert current_queue() is current_queue()
