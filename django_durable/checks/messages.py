"""How a check speaks: ``msg`` states the problem, ``hint`` the fix, the id says which one it is for good."""

from __future__ import annotations

from typing import TypeAlias

from django.core.checks import CheckMessage, Error, Warning

TAG = "durable"
"""``manage.py check --tag durable`` runs these checks only."""

Messages: TypeAlias = list[CheckMessage]


def error(number: int, msg: str, hint: str) -> CheckMessage:
    """Nothing good can come of going on: workers refuse to start, as do the commands that start runs.

    Those that look, stop or mend do not ask: they are for when something is wrong.
    """
    return Error(msg, hint=hint, id=f"django_durable.E{number:03}")


def warning(number: int, msg: str, hint: str) -> CheckMessage:
    """It works, but not as people expect or not for long."""
    return Warning(msg, hint=hint, id=f"django_durable.W{number:03}")
