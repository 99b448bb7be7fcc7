"""What the checker looks at: plain values, of whoever collected or made them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.chaos.programs import Program
from tests.chaos.witness import Line


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run as it stands in the end. ``tag`` is what the client knows it by, empty for a child; ``output`` may be None:
    there is none."""

    id: str
    tag: str
    program: Program
    status: str
    claims: int
    output: Any = None
    error: dict[str, Any] | None = None
    parent: str | None = None
    limit_key: str | None = None


@dataclass(frozen=True, slots=True)
class EntryRow:
    """A journal entry as it stands in the end; ``value`` is what the step returned."""

    run: str
    path: str
    seq: int
    kind: str
    status: str
    token: str
    value: Any = None


@dataclass(frozen=True, slots=True)
class Change:
    """A run's row changed its status or its lease. ``at`` is the database's time, in seconds; ``lapsed``: the lease
    that it had was past its end."""

    seq: int
    xid: int
    at: float
    run: str
    was: str
    status: str
    old_token: str | None
    token: str | None
    worker: str | None = None
    claims: int = 0
    crashes: int = 0
    suspect: bool = False
    lapsed: bool = False
    cancelling: bool = False
    limit_key: str | None = None

    @property
    def is_claim(self) -> bool:
        return self.token is not None and self.token != self.old_token


@dataclass(frozen=True, slots=True)
class Written:
    """A journal entry was written. ``execution`` tells which execution of a step it has the value of."""

    seq: int
    xid: int
    at: float
    run: str
    path: str
    kind: str
    status: str
    attempts: int
    token: str
    execution: str | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """A line of the client's log: it is about to do something (``invoke``), or how that came out: ``ok``, ``refused``
    (nothing has happened) or ``unknown``.

    ``verb`` is enqueue, cancel or event; ``runs`` the ids by tag, as far as they are known; ``at`` CLOCK_MONOTONIC.
    """

    call: int
    verb: str
    moment: str
    at: float
    tags: list[str] = field(default_factory=list)
    runs: dict[str, str] = field(default_factory=dict)
    key: str | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """What the nemesis did, and from when to when it lasted (CLOCK_MONOTONIC).

    ``pids`` are the processes that it was aimed at; empty where it was aimed at a server.
    """

    kind: str
    at: float
    until: float
    pids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Began:
    """A process came to work: ``at`` by the database's time; ``place`` tells its supervisor's from others."""

    pid: int
    place: str
    at: float
    is_isolated: bool = False


@dataclass(slots=True)
class Evidence:
    """``epoch`` is what to add to CLOCK_MONOTONIC for the database's time; ``workers``: process ids by worker;
    ``released``: those of them that are of the released version; ``ended_unknown``: see `unknown.py`."""

    runs: list[RunRow] = field(default_factory=list)
    entries: list[EntryRow] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    writings: list[Written] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    workers: dict[str, int] = field(default_factory=dict)
    began: list[Began] = field(default_factory=list)
    released: set[str] = field(default_factory=set)
    ended_unknown: set[str] = field(default_factory=set)
    invariants: list[str] = field(default_factory=list)
    epoch: float = 0.0


@dataclass(frozen=True, slots=True)
class Violation:
    """``rule`` is a word of the checker's, with the invariants' numbers in its module; ``run`` may be a tag."""

    rule: str
    run: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.text} [{self.run}]"
