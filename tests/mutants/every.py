"""All mutants, by subject."""

from __future__ import annotations

from . import exchanges, leases, starts, steps, waits
from .mutant import Mutant

MUTANTS: tuple[Mutant, ...] = (
    *leases.FENCES,
    *leases.LAPSES,
    *waits.WAKES,
    *waits.TIMES,
    *waits.ENDS,
    *starts.PROCESSES,
    *starts.STARTS,
    *starts.SCHEDULES,
    *starts.RETENTION,
    *steps.RESULTS,
    *steps.ATTEMPTS,
    *exchanges.ANSWERS,
    *exchanges.AT_ONCE_ANSWERS,
    *exchanges.LISTENERS,
    *exchanges.LONE_STEPS,
)
