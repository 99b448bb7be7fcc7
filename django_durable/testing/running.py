"""``run_until_idle``: a worker's work in the calling thread, on its connection."""

from __future__ import annotations

from contextlib import nullcontext

from asgiref.sync import sync_to_async

from ..core.flow.executing import is_executing
from ..exceptions import ContextMisuse
from ..store.database import Database
from ..workflows.registry import workflows
from .attempting import next_turn, work
from .idling import Limit, skip_wait, sweep, without_queue
from .scheduling import Schedules
from .travelling import within_travel

MAX_CLAIMS = 10_000


def run_until_idle(skip_waits: bool = False, *, max_claims: int = MAX_CLAIMS) -> int:
    """Work whatever is due, in this thread and on its connection, until nothing is; the number of claims.

    With ``skip_waits`` the clock jumps to the next wake whenever runs only wait for time; outside of ``travel()`` it is
    put back at the end. Raises NotIdle after ``max_claims`` claims, or a tenth of them of one run.

    Inside of ``travel()`` schedules fire too, as ``overlap`` and ``catch_up`` say: those that were due when the call
    began. Their next instants are nobody's wait: no jump goes to one, and what a jump passes fires at the next call.
    """
    if is_executing():
        raise ContextMisuse("run_until_idle() belongs in a test, not in a workflow or in a step of it.")
    with without_queue(), within_travel() if skip_waits else nullcontext():
        return _run(Database(), tuple(workflows()), Limit(max_claims), skip_waits)


async def arun_until_idle(skip_waits: bool = False, *, max_claims: int = MAX_CLAIMS) -> int:
    """As ``run_until_idle``."""
    return await sync_to_async(run_until_idle)(skip_waits, max_claims=max_claims)


def _run(db: Database, known: tuple[str, ...], limit: Limit, skip_waits: bool) -> int:
    schedules = Schedules(db)
    schedules.plan()
    has_jumped = False
    while True:
        if turn := next_turn(db, known):
            work(db, turn)
            limit.count(turn.claim)
            has_jumped = False
        elif not sweep(db) and not schedules.fire():
            # Where a jump has brought nothing, another one will not: somebody else holds the run.
            if not skip_waits or has_jumped or not skip_wait(db, known):
                return limit.claims
            has_jumped = True
