"""Which loops a worker runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...queues.base import Queue
from ...queues.database import DatabaseQueue
from ...store.database import PrivateDatabase
from ...store.holding import NOTHING, Held
from .admit import Admit
from .base import Loop
from .fire import Fire
from .fit import Fit
from .isolate import Isolate
from .promote import BATCH, Promote
from .prune import Prune
from .reap import Reap
from .refill import Refill
from .sweep import Sweep
from .synchronise import Synchronise
from .unwanted import Unwanted

__all__ = ["BATCH", "maintenance"]


def maintenance(
    db: PrivateDatabase,
    queue: Queue,
    queues: Sequence[str],
    tell: Callable[[str], None],
    held: Callable[[], Held] = lambda: NOTHING,
) -> list[Loop]:
    """All loops of one process. ``tell`` speaks to the supervisor, ``held`` says what is held."""

    def tell_of_suspects(count: int) -> None:
        tell(f"suspects {count}")

    code = Synchronise()
    loops: list[Loop] = [
        Reap(db, queue, tell_of_suspects),
        Sweep(db, queue),
        Unwanted(db, queue),
        Fit(queue, queues),
        Isolate(db, queues, tell_of_suspects, held),
        code,
        Fire(queue, code),
        Prune(db),
    ]
    if not isinstance(queue, DatabaseQueue):
        # A claim from the database takes what is due by itself; lists of ids have to be told.
        loops += [Promote(db, queue), Refill(db, queue, queues, held), Admit(db, queue, queues)]
    return loops
