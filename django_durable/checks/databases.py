"""The database that holds the runs. None of these checks opens a connection."""

from __future__ import annotations

from typing import Any

from django.core.checks import register
from django.db import DEFAULT_DB_ALIAS, connections, router
from django.db.backends.base.base import BaseDatabaseWrapper

from .messages import TAG, Messages, error, warning
from .reading import sound_settings

SQLITE_OLDEST = (3, 35)
"""The first with RETURNING, which every claim and transition uses."""
SQLITE_TIMEOUT = 5.0
"""What Python's sqlite3 waits for a lock unless it is told otherwise."""


def durable_connection() -> BaseDatabaseWrapper | None:
    """The (unopened) connection of ``DURABLE["DATABASE"]``, None where there is no such alias."""
    alias = sound_settings().DATABASE
    if alias not in connections:
        return None
    return connections[alias]


@register(TAG)
def check_alias(**_: Any) -> Messages:
    alias = sound_settings().DATABASE
    if alias not in connections:
        known = ", ".join(repr(name) for name in connections)
        return [
            error(
                10,
                f"DURABLE['DATABASE'] is {alias!r}, and DATABASES has no such alias.",
                f"It has {known}.",
            )
        ]
    messages: Messages = []
    if alias != DEFAULT_DB_ALIAS:
        messages.append(
            warning(
                1,
                f"Runs are kept in the database {alias!r}, not in {DEFAULT_DB_ALIAS!r}: enqueue() is not part of the "
                "caller's transaction there, and atomic steps are not with models of other databases.",
                "Leave DATABASE out, or enqueue with transaction.on_commit() and do not rely on atomic=True for "
                "models elsewhere. If that is understood, put this id into SILENCED_SYSTEM_CHECKS.",
            )
        )
    if not router.allow_migrate(alias, "django_durable", model_name="run"):
        messages.append(
            error(
                11,
                f"DATABASE_ROUTERS keep the tables of django_durable out of the database {alias!r}, "
                "where DURABLE['DATABASE'] looks for them.",
                f"Let allow_migrate() return True or None for the app django_durable on {alias!r}.",
            )
        )
    return messages


@register(TAG)
def check_vendor(**_: Any) -> Messages:
    connection = durable_connection()
    if connection is None or connection.vendor in ("postgresql", "sqlite"):
        return []
    return [
        error(
            12,
            f"The database {connection.alias!r} is {connection.display_name}, and django_durable has no SQL for it.",
            "Use PostgreSQL or SQLite, if need be as a database of its own named by DURABLE['DATABASE'].",
        )
    ]


@register(TAG)
def check_postgresql(**_: Any) -> Messages:
    connection = durable_connection()
    if connection is None or connection.vendor != "postgresql" or has_psycopg3():
        return []
    return [
        error(
            13,
            "Django uses psycopg2 here, and django_durable needs psycopg 3.",
            'pip install "django-durable[postgres]"; Django prefers psycopg 3 as soon as it is there.',
        )
    ]


def has_psycopg3() -> bool:
    from django.db.backends.postgresql.psycopg_any import is_psycopg3

    return bool(is_psycopg3)


@register(TAG)
def check_sqlite(**_: Any) -> Messages:
    connection = durable_connection()
    if connection is None or connection.vendor != "sqlite":
        return []
    messages: Messages = []
    if sqlite_version() < SQLITE_OLDEST:
        messages.append(
            error(
                14,
                f"SQLite is {'.'.join(map(str, sqlite_version()))}, and django_durable needs "
                f"{'.'.join(map(str, SQLITE_OLDEST))} or newer.",
                "Use a Python that is linked with a newer SQLite, or PostgreSQL.",
            )
        )
    return messages + _sqlite_options(connection)


def _sqlite_options(connection: BaseDatabaseWrapper) -> Messages:
    options = connection.settings_dict.get("OPTIONS") or {}
    messages: Messages = []
    if str(options.get("transaction_mode", "")).upper() not in ("IMMEDIATE", "EXCLUSIVE"):
        messages.append(
            warning(
                2,
                f"Transactions on the SQLite database {connection.alias!r} begin DEFERRED: one that reads first and "
                "then writes fails at once with 'database is locked', whatever the timeout.",
                'Set OPTIONS = {"transaction_mode": "IMMEDIATE", ...}.',
            )
        )
    timeout, lease = options.get("timeout", SQLITE_TIMEOUT), sound_settings().LEASE_SECONDS
    if timeout < lease:
        messages.append(
            warning(
                3,
                f"The SQLite database {connection.alias!r} gives up waiting for its one writer after {timeout:g} s, "
                f"less than a lease ({lease:g} s): a long transaction of others makes live workers fail.",
                f'Set OPTIONS = {{"timeout": {lease:g}, ...}} or more.',
            )
        )
    return messages


def sqlite_version() -> tuple[int, ...]:
    import sqlite3

    return sqlite3.sqlite_version_info
