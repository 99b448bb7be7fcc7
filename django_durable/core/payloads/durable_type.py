"""``@durable_type("name")``: dataclasses and Enums that may be part of a stored value.

The stored text holds the name, never a path to import: a class may move or be renamed. Instances are made again field
by field, as ``copy`` does it: ``__init__`` and ``__post_init__`` do not run, so that nothing about them can differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from enum import Enum, Flag
from functools import cached_property, partial
from inspect import getattr_static
from types import MemberDescriptorType
from typing import Any, TypeVar

from ...exceptions import PayloadUndecodable
from .refusals import Refusal
from .tags import register_tag

C = TypeVar("C", bound=type[Any])
NAME_MAX = 200


def durable_type(name: str) -> Callable[[C], C]:
    """Make the instances of a dataclass, or the members of an Enum, storable under ``name``.

    It stands above ``@dataclass``. Fields are encoded like any value. A field that is added later needs a default:
    with it older payloads can still be read. Enum members are stored by their names, Flags by their value.
    Raises ``TypeError`` for other classes, ``ValueError`` for a bad name or one that is taken.
    """
    if not isinstance(name, str):
        raise TypeError('durable_type needs a name: @durable_type("name").')
    if not 0 < len(name) <= NAME_MAX or not name.isprintable():
        raise ValueError(f"durable_type name {name[:NAME_MAX]!r}: 1 to {NAME_MAX} printable characters.")

    def register(cls: C) -> C:
        _register(f"@{name}", cls)
        return cls

    return register


def _register(tag: str, cls: type[Any]) -> None:
    if not isinstance(cls, type):
        raise TypeError(f"durable_type is for classes, not {cls!r}.")
    if issubclass(cls, Flag):
        register_tag(tag, cls, _flag_to_data, partial(_flag_from, cls))
    elif issubclass(cls, Enum):
        register_tag(tag, cls, _member_to_data, partial(_member_from, cls))
    elif "__dataclass_fields__" in vars(cls):
        object.__new__(cls)  # raises TypeError for abstract classes and for kinds of dict, list, Exception, ...
        register_tag(tag, cls, partial(_fields_to_data, _slots(cls)), partial(_instance_from, cls))
    else:
        raise TypeError(f"{cls.__qualname__} is neither an Enum nor a dataclass (put @durable_type above @dataclass).")


# --- Enums -----------------------------------------------------------------------------------


def _member_to_data(member: Enum) -> str:
    name = member._name_
    if type(member).__members__.get(name) is not member:
        raise Refusal(f"{type(member).__qualname__} has no member of the name {name!r}")
    return name


def _member_from(cls: type[Enum], name: str) -> Enum:
    return cls.__members__[name]


def _flag_to_data(flag: Flag) -> int:
    value: int = flag._value_
    if type(flag)(value) is not flag:
        raise Refusal(f"{type(flag).__qualname__} has no member of the value {value!r}")
    return value


def _flag_from(cls: type[Flag], value: int) -> Flag:
    if type(value) is not int:
        raise TypeError(f"int expected, not {type(value).__name__}")
    return cls(value)


# --- dataclasses -----------------------------------------------------------------------------


def _fields_to_data(slots: list[str], instance: Any) -> dict[str, Any]:
    cls = type(instance)
    names = [field.name for field in fields(cls)]
    for name in (*getattr(instance, "__dict__", ()), *slots):
        if name not in names and hasattr(instance, name) and not _is_derived(cls, name):
            raise Refusal(f"its attribute {name!r} is not a field and would be lost")
    return {name: getattr(instance, name) for name in names}


def _slots(cls: type[Any]) -> list[str]:
    return [name for base in cls.__mro__ for name, part in vars(base).items() if isinstance(part, MemberDescriptorType)]


def _is_derived(cls: type[Any], name: str) -> bool:
    return isinstance(getattr_static(cls, name, None), cached_property)


def _instance_from(cls: type[Any], data: Any) -> Any:
    if type(data) is not dict:
        raise TypeError(f"fields expected, not {type(data).__name__}")
    known = {field.name: field for field in fields(cls)}
    if unknown := [name for name in data if name not in known]:
        raise PayloadUndecodable(f"{cls.__qualname__} has no field {unknown[0]!r}")
    instance = object.__new__(cls)
    for name, field in known.items():
        object.__setattr__(instance, name, data[name] if name in data else _default(cls, field))
    return instance


def _default(cls: type[Any], field: Field[Any]) -> Any:
    if field.default is not MISSING:
        return field.default
    if field.default_factory is not MISSING:
        return field.default_factory()
    raise PayloadUndecodable(f"{cls.__qualname__}: the field {field.name!r} is missing and has no default")
