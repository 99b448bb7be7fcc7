"""Functions of the engine where something is durable, known or decided and no statement stands."""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple


class Named(NamedTuple):
    """A function of the engine. ``may_fail``: its callers have to live with an error of the database from it."""

    name: str
    module: str
    attribute: str
    may_fail: bool = False
    of: int | None = None
    """The argument that has to hold something: else nothing happens there."""
    begins_at_once: bool = False
    """Whether it begins with a statement or command, before it looks at anything: to come to it is to come to that."""


STEP_BODY = "step body"
NAMED = (
    Named(STEP_BODY, "executor.step_call", "call_plain", may_fail=True),
    Named("attempt", "worker.pools", "perform_attempt"),
    Named("atomic step", "executor.sync_driver", "perform_atomically"),
    Named("batch", "worker.batch_writer", "write_batch", may_fail=True, begins_at_once=True),
    Named("claims started", "worker.process", "WorkerProcess._start"),
    Named("outcome handed over", "worker.pools", "Outcomes.store"),
    Named("commit told of", "worker.aftermath", "Aftermath.committed", may_fail=True),
    Named("hint", "worker.notifier", "hint", may_fail=True, of=2),
    Named("signal or log line", "worker.announcer", "Announcer._perform"),
    Named("parent woken", "store.recovery", "try_wake_parent", may_fail=True, begins_at_once=True),
    Named("run woken", "store.recovery", "wake", may_fail=True, begins_at_once=True),
    Named("promotion", "store.recovery", "promote", may_fail=True, begins_at_once=True),
    Named("sweep", "store.recovery", "sweep", may_fail=True, begins_at_once=True),
    Named("reap", "store.recovery", "reap", may_fail=True, begins_at_once=True),
    Named("leases renewed", "worker.heartbeat", "renew", may_fail=True, begins_at_once=True),
    Named("push", "queues.redis", "RedisQueue.push", of=1),
    Named("push", "queues.database", "DatabaseQueue.push", of=1),
    Named("pop", "queues.redis", "RedisQueue.pop", begins_at_once=True),
    Named("start pushed", "client.pushing", "_hint", may_fail=True),
    Named("wake pushed", "client.pushing", "_wake", may_fail=True),
    Named("schedule fired", "worker.loops.fire", "Fire.fire", may_fail=True, begins_at_once=True),
    Named("firing told of", "worker.loops.fire", "Fire._tell"),
)
MODULES = {named.module: import_module(f"django_durable.{named.module}") for named in NAMED}
"""Imported here, once: a victim is forked for each case."""

BEGINS_BODY = (
    f"{STEP_BODY}, before",
    "atomic step, before",
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL",
    "BEGIN IMMEDIATE",
)
"""Between these and the body nothing looks at the lease: who stalls there begins a body that somebody else has
finished, and no engine that promises "at least once" can know better. What it then writes is refused."""
