"""The Redis queue: lists of run ids, three bands for each queue. The only file that speaks Redis (6.2 and newer)."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import redis
from django_redis import get_redis_connection
from redis.exceptions import NoScriptError

from ..core import clock
from .ready import Ready
from .unawaited import Command, Unawaited

logger = logging.getLogger("django_durable.queues")

T = TypeVar("T")
PUSH_SECONDS = 0.2
"""A web request must not wait longer than this for a hint."""
BREAK_SECONDS = 1.0
"""How long Redis is left alone after it failed."""
BLOCK_SECONDS = 1.0
SHORTEST_BLOCK = 0.002
"""Redis counts whole milliseconds, and none of them is for ever: 6.2 was asked for one or less, and blocked until the
socket's time was up."""
NUDGE_AFTER = 0.002
"""Redis counts whole milliseconds from when it has the command."""
HANG_SECONDS = 1.0
"""An answer that is so late will not come: while a worker waits for it, it does not look at the database either."""
LIST_LIMIT = 100_000
"""A list is a window on the database, not a mirror of it; beyond this length pushes are dropped."""
BANDS = ("high", "normal", "low")
TAKE = """
local found, room = {}, tonumber(ARGV[1])
for _, key in ipairs(KEYS) do
    if room <= 0 then
        break
    end
    for _, one in ipairs(redis.call('LPOP', key, room) or {}) do
        found[#found + 1] = one
        room = room - 1
    end
end
return found
"""
"""Up to so many of the lists, the first ones first: one round trip, and half of the time and CPU that one for each
list took."""


def band_of(priority: int) -> str:
    """Priorities are exact in the database and three bands here."""
    return "high" if priority > 0 else "low" if priority < 0 else "normal"


class Health(NamedTuple):
    """How the Redis of a queue is, None for what it keeps to itself, as some hosted ones do.

    ``ping`` is in seconds, ``used_memory`` in bytes, ``policy`` what it does when its memory is full.
    """

    ping: float
    version: str | None
    policy: str | None
    used_memory: int | None

    @property
    def may_evict(self) -> bool:
        """Whether it is known to throw keys away, so perhaps the lists of ready runs."""
        return self.policy not in (None, "noeviction")


class RedisQueue:
    """Ids of ready runs in lists ``<prefix>:{<queue>}:<band>``; the braces keep a queue in one cluster slot."""

    def __init__(self, cache: str, prefix: str) -> None:
        self._cache = cache
        self._prefix = prefix
        self._clients: dict[float, Any] = {}
        self._take: Any = None
        self._unawaited: Unawaited | None = None
        self._mutex = threading.Lock()
        self._broken_until = 0.0
        self._failing: set[str] = set()
        self._closed = threading.Event()

    @property
    def gives_hints(self) -> bool:
        return clock.monotonic() >= self._broken_until

    def push(self, runs: Sequence[Ready]) -> None:
        if not runs or not self.gives_hints:
            return
        self._guarded("push", lambda: self._push(self._pushes(runs)), None)

    def _pushes(self, runs: Sequence[Ready]) -> list[Command]:
        lists: dict[tuple[str, str], list[str]] = defaultdict(list)
        for run in runs:
            push = "LPUSH" if run.is_under_way else "RPUSH"
            lists[push, self._key(run.queue, band_of(run.priority))].append(str(run.id))
        # LPUSH puts one before the other: the last would be first.
        return [(push, key, *(reversed(ids) if push == "LPUSH" else ids)) for (push, key), ids in lists.items()]

    def _push(self, commands: list[Command]) -> None:
        # After a failure the reply is waited for: that Redis takes bytes does not say that it is back.
        replies = self._sender().send(commands, is_awaited="push" in self._failing)
        for key in {key for (_, key, *_), length in replies if length > LIST_LIMIT}:
            self._client(PUSH_SECONDS).ltrim(key, 0, LIST_LIMIT - 1)

    def pop(self, queues: Sequence[str], limit: int, timeout: float) -> list[UUID]:
        # BLPOP takes at least one list: of a worker whose queues are all held there is none.
        if not self.gives_hints or not queues:
            self._closed.wait(min(timeout, BLOCK_SECONDS))
            return []
        keys = [self._key(queue, band) for band in BANDS for queue in queues]
        found: list[bytes] = []
        self._guarded("pop", lambda: self._pop(keys, limit, min(timeout, BLOCK_SECONDS), found), None)
        if self._closed.is_set():
            self._disconnect()
        return [run_id for run_id in map(_read, found) if run_id is not None]

    def _pop(self, keys: list[str], limit: int, timeout: float, found: list[bytes]) -> None:
        """Into ``found``: what is out of its list is handed on, whatever else Redis refuses."""
        client = self._client(BLOCK_SECONDS + HANG_SECONDS)
        if self._take is None:
            self._take = client.register_script(TAKE)
        if timeout <= 0:
            # Who will not wait is not to block: Redis looks ten times a second whose time is up.
            found += self._take(keys=keys, args=[limit])
            return
        # The first one, and in the same trip what is there behind it or has come with it: one claim is for all of it.
        block = max(timeout, SHORTEST_BLOCK)
        taking = ("EVALSHA", self._take.sha, len(keys), *keys, limit - 1)
        replies: list[Any] = []
        try:
            self._wait(client.connection_pool, block, [("BLPOP", *keys, block), taking], replies)
        finally:
            first, others = (*replies, None, None)[:2]
            if isinstance(first, list):
                found.append(first[1])
            if isinstance(others, list):
                found += others
        if isinstance(others, NoScriptError):
            # It is told of the script, and asked again.
            found += self._take(keys=keys, args=[limit - 1])
        for reply in replies:
            if isinstance(reply, Exception) and not isinstance(reply, NoScriptError):
                raise reply

    def _wait(self, pool: Any, seconds: float, commands: list[tuple[Any, ...]], replies: list[Any]) -> None:
        """Into ``replies`` those, or refusals, to commands the first of which blocks for so long."""
        connection = pool.get_connection()
        try:
            connection.send_packed_command(connection.pack_commands(commands))
            if not connection.can_read(timeout=seconds + NUDGE_AFTER):
                # Redis looks ten times a second whose time is up, and whenever it hears of anybody. Should it not hear
                # of this, it is late, as it would have been.
                with suppress(redis.RedisError, OSError):
                    self._client(PUSH_SECONDS).ping()
                if not connection.can_read(timeout=HANG_SECONDS):
                    raise redis.TimeoutError(f"no answer {HANG_SECONDS} s after it was due")
            for _ in commands:
                replies.append(_reply(connection))
        except BaseException:
            # Nobody knows which replies would still come from it.
            connection.disconnect()
            raise
        finally:
            pool.release(connection)

    def length(self, queue: str) -> int:
        def count() -> int:
            client = self._client(PUSH_SECONDS)
            return sum(client.llen(self._key(queue, band)) for band in BANDS)

        return self._guarded("length", count, 0) if self.gives_hints else 0

    def peek(self, queue: str, count: int) -> Iterator[list[bytes]]:
        """All that is in the lists of a queue, up to ``count`` elements at a time, for who only looks: it stays there.

        Elements that are taken out meanwhile move the others, some of which are then passed over. For people: raises
        redis.RedisError or OSError where Redis does not answer.
        """
        for band in BANDS:
            # No further than a list may be long: one that grows as fast as it is read has an end too.
            for start in range(0, LIST_LIMIT, count):
                key, end = self._key(queue, band), start + count - 1
                if found := self._client(HANG_SECONDS).lrange(key, start, end):
                    yield found
                if len(found) < count:
                    break

    def health(self) -> Health:
        """Ask Redis how it is. For people: raises redis.RedisError where it does not answer."""
        client = self._client(HANG_SECONDS)
        client.ping()  # connects
        begun = clock.monotonic()
        client.ping()
        ping = clock.monotonic() - begun
        info = client.info()
        return Health(ping, info.get("redis_version"), info.get("maxmemory_policy"), info.get("used_memory"))

    def close(self) -> None:
        self._closed.set()
        self._disconnect()
        if self._clients:
            # Behind a Sentinel our pools ask it through clients of the alias's own.
            sentinel = getattr(get_redis_connection(self._cache).connection_pool, "sentinel_manager", None)
            for client in sentinel.sentinels if sentinel is not None else ():
                client.connection_pool.disconnect(inuse_connections=False)

    def _disconnect(self) -> None:
        # Not the connection of a pop that waits: it sees that we are closed when its time is up.
        with self._mutex:
            sender, self._unawaited = self._unawaited, None
            for client in self._clients.values():
                client.connection_pool.disconnect(inuse_connections=False)
        if sender is not None:
            sender.close()

    def _key(self, queue: str, band: str) -> str:
        return f"{self._prefix}:{{{queue}}}:{band}"

    def _guarded(self, verb: str, call: Callable[[], T], otherwise: T) -> T:
        try:
            value = call()
        except (redis.RedisError, OSError) as error:
            self._broken_until = clock.monotonic() + BREAK_SECONDS
            self._note_failure(verb, error)
            return otherwise
        if verb in self._failing:
            self._note_recovery(verb)
        return value

    # Said once, not at each retry. By verb: a Redis that is full refuses every push while pops go well.

    def _note_failure(self, verb: str, error: Exception) -> None:
        with self._mutex:
            is_news = not self._failing
            self._failing.add(verb)
        if is_news:
            logger.warning("redis is out of reach, working from the database: %s", error)

    def _note_recovery(self, verb: str) -> None:
        with self._mutex:
            is_news = self._failing == {verb}
            self._failing.discard(verb)
        if is_news:
            # As loud as the loss: whoever was told of that is to hear of this.
            logger.warning("redis is back")

    def _sender(self) -> Unawaited:
        if (sender := self._unawaited) is not None:
            return sender
        pool = self._client(PUSH_SECONDS).connection_pool
        with self._mutex:
            if self._unawaited is None:
                self._unawaited = Unawaited(pool, redis.ConnectionError)
            return self._unawaited

    def _client(self, socket_timeout: float) -> Any:
        """A client whose socket time-out fits its use.

        django-redis shares one pool for each URL, with whatever options came first, and redis-py 8 times out
        after 5 s: so the pools are ours, with the alias's connection class and arguments.
        """
        with self._mutex:
            client = self._clients.get(socket_timeout)
            if client is None:
                shared = get_redis_connection(self._cache).connection_pool
                arguments = {
                    name: value
                    for name, value in shared.connection_kwargs.items()
                    if name not in ("maint_notifications_pool_handler", "himport_registry")
                }
                arguments |= {"socket_timeout": socket_timeout, "socket_connect_timeout": min(socket_timeout, 2.0)}
                arguments["retry"] = None
                pool = redis.ConnectionPool(connection_class=shared.connection_class, **arguments)
                client = self._clients[socket_timeout] = redis.Redis(connection_pool=pool)
            return client


def _reply(connection: Any) -> Any:
    try:
        return connection.read_response()
    except redis.ResponseError as refusal:
        return refusal


def _read(value: bytes | str) -> UUID | None:
    """The id in a list element; what is no id was put there by somebody else and is dropped."""
    try:
        return UUID(value.decode() if isinstance(value, bytes) else value)
    except ValueError:
        logger.warning("a list of ready runs held something that is no run id; dropped")
        return None
