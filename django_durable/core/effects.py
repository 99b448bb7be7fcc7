"""What a flow asks its driver to do. A flow itself does no I/O: it yields these and is sent the answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .journal import Entry


@dataclass(slots=True, frozen=True)
class Returned:
    """The step's body returned ``value`` after ``seconds``."""

    value: Any
    seconds: float


@dataclass(slots=True, frozen=True)
class Raised:
    """The step's body raised ``error`` after ``seconds``."""

    error: BaseException
    seconds: float


Performed = Returned | Raised


@dataclass(slots=True, frozen=True)
class Perform:
    """Run the user's function. The answer is ``Returned`` or ``Raised``.

    With ``settle`` the step is atomic: the body, the entry that ``settle`` makes of its value and whatever
    is pending commit in one transaction, and the answer ``Returned`` means that this has happened.
    """

    path: str
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    attempt: int
    timeout: float | None = None
    settle: Callable[[Returned], Entry] | None = None


@dataclass(slots=True, frozen=True)
class Persist:
    """Make all that is pending durable before going on."""


Effect = Perform | Persist
