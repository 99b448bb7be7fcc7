"""Classes whose objects do harm when somebody looks at them: part of the corpus."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from django.db import IntegrityError, InterfaceError, OperationalError

from django_durable import NonRetriableError, RetryLater, RollbackError
from django_durable.core.ids import uuid7
from django_durable.exceptions import PayloadUndecodable, RunCancelled, RunFailed, StepFailed


class Rude(Exception):
    """What they raise: nothing that anybody expects."""


def refuse(*_args: Any, **_named: Any) -> NoReturn:
    raise Rude("no")


class Text(str):
    """A str to whom nothing of a str can be done."""

    __slots__ = ()
    __str__ = __repr__ = __len__ = __getitem__ = __format__ = strip = encode = refuse  # type: ignore[assignment]


class Number(int):
    pass


class Mapping(dict[Any, Any]):
    pass


class ReprRaises:
    __repr__ = refuse  # type: ignore[assignment]


class StrRaises:
    __str__ = refuse  # type: ignore[assignment]


class StrExits:
    def __str__(self) -> str:
        raise SystemExit(3)

    __repr__ = __str__


class EqRaises:
    __eq__ = refuse  # type: ignore[assignment]
    __hash__ = object.__hash__


class HashRaises:
    __hash__ = refuse  # type: ignore[assignment]


class BoolRaises:
    __bool__ = __len__ = refuse


class ReduceRaises:
    __reduce__ = __reduce_ex__ = __getstate__ = refuse  # type: ignore[assignment]


class EveryAttributeRaises:
    def __getattribute__(self, name: str) -> NoReturn:
        raise Rude(name)


class ClaimsToBeAnInt:
    @property
    def __class__(self) -> type[int]:
        return int

    @__class__.setter
    def __class__(self, value: object) -> None:
        raise Rude


class NeverEnds:
    def __iter__(self) -> Iterator[int]:
        while True:
            yield 1


class MeetsOurMark:
    """As a key of a dict it is compared with the codec's mark."""

    def __hash__(self) -> int:
        return hash("$")

    __eq__ = refuse  # type: ignore[assignment]


class BadlyNamed:
    pass


BadlyNamed.__name__ = BadlyNamed.__qualname__ = "<hostile>\r\n\x1b[2K" * 10
BadlyNamed.__module__ = 5  # type: ignore[assignment]


def unhashable_class() -> Any:
    """Made when it is asked for: whoever looks at all classes (garbage collection, abstract classes) meets it."""

    class Meta(type):
        __hash__ = refuse  # type: ignore[assignment]

    return Meta("Unhashable", (), {})


def rude_class() -> Any:
    class Meta(type):
        def __getattribute__(cls, name: str) -> Any:
            # What the interpreter itself asks of a class it does not ask here.
            raise Rude(name)

    return Meta("RudeClass", (), {})


# --- exceptions ------------------------------------------------------------------------------


class ErrorStrRaises(Exception):
    __str__ = refuse  # type: ignore[assignment]


class ErrorReprRaises(Exception):
    __repr__ = refuse  # type: ignore[assignment]


class ErrorStrExits(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class ErrorStrIsNone(Exception):
    def __str__(self) -> str:
        return None  # type: ignore[return-value]


class ErrorStrIsRude(Exception):
    def __str__(self) -> str:
        return Text("from a subclass")


class ErrorStrRecurses(Exception):
    def __str__(self) -> str:
        return str(self)


class ErrorReduceRaises(Exception):
    __reduce__ = __reduce_ex__ = refuse  # type: ignore[assignment]


class ErrorEqRaises(Exception):
    __eq__ = __bool__ = refuse  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]


class ErrorAttributesRaise(Exception):
    __cause__ = __context__ = __suppress_context__ = __notes__ = property(refuse)  # type: ignore[assignment]


class ErrorBadlyNamed(Exception):
    __module__ = 5  # type: ignore[assignment]
    __qualname__ = "<hostile>\r\n\x1b[2K" * 1_000


class Nameless(type):
    """Of whose classes nobody is told the name."""

    def __getattribute__(cls, name: str) -> Any:
        if name in ("__name__", "__qualname__", "__module__"):
            raise Rude(name)
        return super().__getattribute__(name)


class ErrorOfNamelessClass(Exception, metaclass=Nameless):
    pass


class OwnBase(BaseException):
    """No Exception: what catches those lets it pass."""


def _cyclic() -> BaseException:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    first.__context__, second.__context__ = second, first
    return first


def _long_chain() -> BaseException:
    error: BaseException = ValueError("0")
    for number in range(3_000):
        following = ValueError(str(number))
        following.__cause__ = error
        error = following
    return error


def _group() -> BaseException:
    return ExceptionGroup("wide", [ExceptionGroup("deep", [ErrorStrRaises(), _cyclic()]), *([ValueError("x")] * 500)])


def _noted() -> BaseException:
    error = ValueError("x")
    error.__notes__ = [Text("note"), None, 5, "n" * 1_000_000] * 20
    return error


ERRORS: dict[str, Callable[[], BaseException]] = {
    "str raises": ErrorStrRaises,
    "repr raises": ErrorReprRaises,
    "str exits": ErrorStrExits,
    "str is none": ErrorStrIsNone,
    "str is rude": ErrorStrIsRude,
    "str recurses": ErrorStrRecurses,
    "reduce raises": ErrorReduceRaises,
    "eq raises": ErrorEqRaises,
    "attributes raise": ErrorAttributesRaise,
    "badly named": ErrorBadlyNamed,
    "of a nameless class": ErrorOfNamelessClass,
    "cyclic cause": _cyclic,
    "long chain": _long_chain,
    "group": _group,
    "group of what is no Exception": lambda: BaseExceptionGroup("base", [KeyboardInterrupt(), OwnBase("x")]),
    "notes": _noted,
    "no Exception": lambda: OwnBase("x"),
    "KeyboardInterrupt": KeyboardInterrupt,
    "SystemExit": lambda: SystemExit(0),
    "SystemExit with a text": lambda: SystemExit("\x1b[2K"),
    "GeneratorExit": GeneratorExit,
    "StopIteration": lambda: StopIteration(5),
    "StopAsyncIteration": StopAsyncIteration,
    "CancelledError": asyncio.CancelledError,
    "TimeoutError": TimeoutError,
    "MemoryError": MemoryError,
    "RecursionError": RecursionError,
    "UnicodeDecodeError": lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
    "connection lost, it says": lambda: OperationalError("server closed the connection unexpectedly"),
    "connection closed, it says": lambda: InterfaceError("connection already closed"),
    "constraint, it says": lambda: IntegrityError("duplicate key"),
    "forged: undecodable": lambda: PayloadUndecodable("\r\n" * 1_000),
    "forged: cancelled": lambda: RunCancelled(uuid7(), "forged"),
    "forged: another run failed": lambda: RunFailed(uuid7(), {"type": 5, "message": None}),
    "forged: another step failed": lambda: StepFailed("x" * 5_000, -1, {}),
    "forged: step failed of objects": lambda: StepFailed("step", 1, {"type": object(), "message": ReprRaises()}),
    "retry at no time": lambda: RetryLater(after=float("nan")),
    "retry in the past": lambda: RetryLater(after=-1e300),
    "retry when nobody knows": lambda: RetryLater(after=ReduceRaises()),
    "never again": lambda: NonRetriableError("x" * 100_000),
    "roll back": lambda: RollbackError("\0"),
}
