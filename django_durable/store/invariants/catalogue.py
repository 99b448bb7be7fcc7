"""The invariants that the tables alone can show: see ``docs/commands.md`` for what each of them leaves to others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..dialects import Dialect
from ..sql.invariants import claims, families, journals, keys, limits, names, runs, schedules, sizes, waiting

RUNS, KEYS = "django_durable_run", "django_durable_idempotencykey"
FIRES, SCHEDULES, HOLDS = "django_durable_fire", "django_durable_schedule", "django_durable_hold"


@dataclass(slots=True, frozen=True)
class Look:
    """A query, and the table whose ids make its windows. None: it has none, and ``counts`` what it looks at."""

    query: Callable[[Dialect], str]
    walks: str | None = RUNS
    counts: Callable[[], str] | None = None


@dataclass(slots=True, frozen=True)
class Invariant:
    """``id`` as in the design's list, ``text`` what holds."""

    id: str
    text: str
    looks: tuple[Look, ...]


def _of(id: str, text: str, *queries: Callable[[Dialect], str] | Look) -> Invariant:
    return Invariant(id, text, tuple(one if isinstance(one, Look) else Look(one) for one in queries))


INVARIANTS = (
    _of("I1", "A run is running if and only if it has a whole lease.", runs.lease),
    _of("I2", "A run is over if and only if it has an end, and its outcome fits its status.", runs.ending),
    _of("I3", "What is over is left alone, but for a resume.", runs.final),
    _of("I4", "Claims are counted, and made one after the other.", claims.counted, claims.kept),
    _of(
        "I5",
        "What a run has written was written under its claims.",
        claims.entries,
        claims.tokens,
        claims.events,
        claims.children,
    ),
    _of("I6", "The sequence of a journal strictly grows.", journals.sequence),
    _of("I8", "A path occurs once in a run's journal.", journals.paths),
    _of("I13", "An unexpired idempotency key has one run.", Look(keys.keys, KEYS)),
    _of("I14", "What was asked to stop ends in no other way.", runs.cancelled),
    _of(
        "I15",
        "Each fire has one run, and no instant fires twice.",
        Look(schedules.fires, FIRES),
        Look(schedules.plans, SCHEDULES),
    ),
    _of("I16", "No run has crashed more often than it may.", runs.crashes),
    _of("I17", "No run was tried more often than it may be, and no sleep ended early.", runs.attempts, runs.sleeps),
    _of("I18", "The parent of a live attached child exists.", families.parents),
    _of("I18b", "A cancelled parent has no attached child that goes on.", families.cancelled_parents),
    _of(
        "I19",
        "No limit has more leased runs than it lets.",
        Look(limits.leased, walks=None, counts=limits.count_leased),
    ),
    _of(
        "I20",
        "No stored value is larger than it may be, and no name longer.",
        sizes.payloads,
        sizes.entries,
        sizes.events,
        names.of_runs,
        Look(sizes.inputs, SCHEDULES),
        Look(names.of_schedules, SCHEDULES),
        Look(names.of_holds, HOLDS),
    ),
    _of("I22", "A waiting run has something to wake it, and nothing that should have.", waiting.waits),
    _of("status", "A run is in a status that there is, and has what that one asks for.", runs.standing),
    _of("orphans", "Journal, payloads, events, tags and audit belong to runs that exist.", families.orphans),
)

VALUES = Invariant("I20b", "Stored values can be read.", ())
"""Has a walk of its own, through the codec: ``values``."""
