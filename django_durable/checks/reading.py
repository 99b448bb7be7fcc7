"""``DURABLE`` as it was written. What is wrong with it is told once, and must not break the checks that follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from math import isfinite
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from django.conf import settings as django_settings

from ..conf import KNOWN_KEYS, Settings

KINDS = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    type(None): "None",
    dict: "a dict",
    list: "a list",
    tuple: "a tuple",
}


def written() -> Mapping[Any, Any]:
    """The setting as a mapping; empty where it is no mapping at all."""
    found = getattr(django_settings, "DURABLE", {})
    return found if isinstance(found, Mapping) else {}


def sound_settings() -> Settings:
    """The settings with every value that has the right type, and the default in place of the others."""
    given = written()
    return Settings(**{key: given[key] for key in KNOWN_KEYS & given.keys() if has_right_type(key, given[key])})


def has_right_type(key: str, value: object) -> bool:
    """Whether ``value`` is of the type that the default of ``key`` is annotated with."""
    return any(_is(kind, value) for kind in _kinds(key))


def expected(key: str) -> str:
    """The types of ``key``, for people."""
    return " or ".join(KINDS.get(get_origin(kind) or kind, str(kind)) for kind in _kinds(key))


def all_keys() -> list[str]:
    return [field.name for field in fields(Settings)]


def _kinds(key: str) -> tuple[Any, ...]:
    hint = get_type_hints(Settings)[key]
    return get_args(hint) if isinstance(hint, UnionType) else (hint,)


def _is(kind: Any, value: object) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, get_origin(kind) or kind)
