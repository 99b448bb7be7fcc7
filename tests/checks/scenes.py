"""For each check id a project that has just that problem."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from django.db import connections
from django.test import override_settings

from django_durable import Cron, durable_workflow
from django_durable.checks import databases, deployment
from django_durable.core import registry

Scene = Callable[[], AbstractContextManager[Any]]
REDIS = "django_redis.cache.RedisCache"
SHARD = {"CLIENT_CLASS": "django_redis.client.ShardClient"}
URL = "redis://:secret@redis.example:6379/1"


def durable(**keys: Any) -> Scene:
    return partial(override_settings, DURABLE={"QUEUE": "redis", **keys})


def setting(**settings: Any) -> Scene:
    return partial(override_settings, **settings)


def caches(queue: str | None = "redis", **aliases: dict[str, Any]) -> Scene:
    return setting(DURABLE={"QUEUE": queue}, CACHES=aliases)


def redis(location: Any = URL, **options: Any) -> dict[str, Any]:
    return {"BACKEND": REDIS, "LOCATION": location, "OPTIONS": options}


def database(vendor: str, **options: Any) -> Scene:
    """A project whose database is another one than that of the test run."""
    connection = SimpleNamespace(
        vendor=vendor, alias="default", display_name=vendor.title(), settings_dict={"OPTIONS": options}
    )
    return together(
        partial(patch.object, databases, "durable_connection", lambda: connection),
        partial(patch.object, deployment, "durable_connection", lambda: connection),
    )


def together(*scenes: Scene) -> Scene:
    @contextmanager
    def all_of_them() -> Iterator[None]:
        with ExitStack() as stack:
            for scene in scenes:
                stack.enter_context(scene())
            yield

    return all_of_them


@contextmanager
def another_database() -> Iterator[None]:
    connections.settings["runs"] = connections.settings["default"]
    try:
        with override_settings(DURABLE={"QUEUE": "redis", "DATABASE": "runs"}):
            yield
    finally:
        del connections.settings["runs"]
        if hasattr(connections._connections, "runs"):
            del connections["runs"]


class NoTables:
    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool:
        return app_label != "django_durable"


def workflows(declare: Callable[[], object]) -> Scene:
    @contextmanager
    def declared() -> Iterator[None]:
        with (
            patch.object(registry, "_named", {}),
            patch.object(registry, "_unnamed", []),
            patch.object(registry, "_duplicates", []),
        ):
            declare()
            yield

    return declared


def twins() -> None:
    @durable_workflow(name="shop.twin")
    def first(ctx: Any) -> None: ...

    @durable_workflow(name="shop.twin")
    def second(ctx: Any) -> None: ...


def scheduled(cron: Any) -> None:
    @durable_workflow(name="shop.report", cron=cron)
    def report(ctx: Any, day: str = "") -> None: ...


SQLITE_OPTIONS = {"transaction_mode": "IMMEDIATE", "timeout": 60}
CRON = "0 6 * * *"

SCENES: dict[str, Scene] = {
    "E001": setting(DURABLE=["QUEUE"]),
    "E002": durable(LEASE_SECOND=30),
    "E003": durable(MAX_CRASHES="three"),
    "E004": durable(MAX_CRASHES=0),
    "E005": durable(LEASE_SECONDS=29, HEARTBEAT_SECONDS=10),
    "E006": durable(QUEUE="rabbit"),
    "E007": durable(KEY_PREFIX="my {app}"),
    "E008": durable(WARN_PAYLOAD_BYTES=2_000, MAX_PAYLOAD_BYTES=1_000),
    "E009": setting(USE_TZ=False),
    "E010": durable(DATABASE="nowhere"),
    "E011": setting(DATABASE_ROUTERS=[NoTables()]),
    "E012": database("mysql"),
    "E013": together(database("postgresql"), partial(patch.object, databases, "has_psycopg3", lambda: False)),
    "E014": together(
        database("sqlite", **SQLITE_OPTIONS), partial(patch.object, databases, "sqlite_version", lambda: (3, 34, 1))
    ),
    "E015": durable(REDACT="tests.app.nowhere"),
    "E016": durable(MAY_WATCH="tests.app.nowhere"),
    "E020": caches(other=redis()),
    "E021": caches(default={"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": URL}),
    "E022": caches(default=redis(**SHARD)),
    "E030": workflows(twins),
    "E031": workflows(partial(scheduled, Cron(CRON, input={"dya": "monday"}))),
    "E032": workflows(partial(scheduled, [Cron(CRON, name="twice"), Cron(CRON, name="twice")])),
    "W001": another_database,
    "W002": database("sqlite", timeout=60),
    "W003": database("sqlite", transaction_mode="IMMEDIATE", timeout=29),
    "W004": caches(default=redis(), sessions=redis("redis://redis.example/1")),
    "W005": caches(None, default=redis()),
    "W010": setting(DEBUG=True),
    "W011": database("sqlite", **SQLITE_OPTIONS),
    "W012": caches(default=redis("redis://redis.example/1")),
}
