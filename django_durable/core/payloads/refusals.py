"""Why a value cannot be stored, in words that say what to do instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from enum import Enum
from typing import Any


class Refusal(ValueError):
    """A value, or a part of it, cannot be encoded. Never leaves the codec, which finds the path to that part."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


def unknown_type(cls: type[Any]) -> Refusal:
    """The refusal of a value whose exact class has no tag."""
    name = cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
    return Refusal(f"a {name} cannot be stored; {_hint(cls)}")


# Only the class is asked, never the value: a lazy object would be evaluated by the question.


def _hint(cls: type[Any]) -> str:
    if cls.__name__ == "__proxy__":
        return "it is a lazy translation: call str() on it"
    if hasattr(cls, "_meta") and hasattr(cls, "pk"):
        return "pass its primary key and load it where it is needed"
    if issubclass(cls, Enum) or is_dataclass(cls):
        return 'register the class with @durable_type("a name")'
    if issubclass(cls, str):
        return "it would come back as a plain str: convert it to one first, with value[:]"
    for base in (int, float, bytes, tuple, list, dict, set, frozenset):
        if issubclass(cls, base):
            return f"it would come back as a plain {base.__name__}: convert it to one first"
    return _hint_at_conversion(cls)


def _hint_at_conversion(cls: type[Any]) -> str:
    if issubclass(cls, BaseException):
        return "store str(error), or raise it"
    if issubclass(cls, bytearray | memoryview):
        return "convert it to bytes"
    if issubclass(cls, Mapping):
        return "convert it to a dict"
    if issubclass(cls, Iterable):
        return "convert it to a list"
    if hasattr(cls, "__fspath__"):
        return "convert it to a str"
    return "pass plain data, or a dataclass or Enum registered with @durable_type"
