"""What a flow asks its driver to do. A flow itself does no I/O: it yields these and is sent the answer."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from ..journal.journal import Entry
from ..journal.states import EntryStatus

if TYPE_CHECKING:
    from .flow import Flow

T = TypeVar("T")


# One of each for every step: a frozen one takes twice as long to make.
@dataclass(slots=True)
class Returned:
    """The user's code returned ``value`` after ``seconds``."""

    value: Any
    seconds: float


@dataclass(slots=True)
class Raised:
    """The user's code raised ``error`` after ``seconds``."""

    error: BaseException
    seconds: float


Performed = Returned | Raised


@dataclass(slots=True)
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
    """Make all that is pending durable before going on.

    ``is_last``: the call does nothing after this but come to its value. Where the workflow's function then does nothing
    but return, this may be left to the commit of its outcome.
    """

    is_last: bool = False


LAST = Persist(is_last=True)


def persist_end(entry: Entry) -> Persist:
    """Of a call that has come to ``entry``. What it raises, code may catch, and go on."""
    return LAST if entry.status == EntryStatus.SUCCEEDED else Persist()


@dataclass(slots=True, frozen=True)
class Enter:
    """Call ``body(ctx)`` with a ``ctx`` of ``part``, here and now. The answer is ``Returned`` or ``Raised``."""

    part: Flow
    body: Callable[[Any], Any]


@dataclass(slots=True, frozen=True)
class Spawn:
    """Begin ``body(ctx)`` beside the others, and do not wait for it: ``AwaitBranch`` tells of its end.

    Where there is nobody to run it (no thread is free, or a test wants none) it runs inside a later ``AwaitBranch``.
    """

    branch: Flow
    body: Callable[[Any], Any]


@dataclass(slots=True, frozen=True)
class AwaitBranch:
    """Wait until one of these has ended: the answer is its ``Ended``, or None after ``seconds`` (None: no limit)."""

    branches: Sequence[Flow]
    seconds: float | None = None


@dataclass(slots=True, frozen=True)
class Ended:
    """The code of ``branch`` is over. What that means is for whoever spawned it to find in the branch."""

    branch: Flow
    performed: Performed


@dataclass(slots=True, frozen=True)
class Stop:
    """Nobody needs these any more: interrupt what can be interrupted (coroutines; a thread goes on to its next call).

    A step that is under way comes to its end first, ``at_once``: where it can be interrupted, it is. Their ends are
    still told, to an ``AwaitBranch`` that names them.
    """

    branches: Sequence[Flow]
    at_once: bool = False


@dataclass(slots=True, frozen=True)
class Refresh:
    """Look what the outside has sent since the claim: events, and children that have ended."""


Effect = Perform | Persist | Enter | Spawn | AwaitBranch | Stop | Refresh
Answer = Performed | Ended | None
Decisions = Generator[Effect, Answer, T]
"""What every ``ctx`` call is: a generator of effects that ends with the call's value."""
