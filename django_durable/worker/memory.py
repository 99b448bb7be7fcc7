"""How a worker process, of many threads and objects, lets Python and the C library keep its memory."""

from __future__ import annotations

import ctypes
import gc
import os

YOUNG_OBJECTS = 10_000
"""As many as are made before Python looks for cycles among them."""
ARENAS = 2
"""Of the C library's, for all threads. glibc makes up to eight for each core, and each keeps what its threads have once
needed at the same time. 16 minutes of `make soak` on two cores, side by side: 18 MB instead of 9 in 15 arenas, 5 MB
more instead of 10 since the load began, as many runs. Python's threads allocate one at a time, so need no more."""
M_ARENA_MAX = -8
"""mallopt(3), malloc.h."""


def settle() -> None:
    """Once the project is imported, before there are many threads."""
    # What the project has imported stays: a full collection that walks through all of it stops every run meanwhile.
    gc.freeze()
    collect_less_often()
    share_arenas()


def collect_less_often() -> None:
    """Steps make thousands of objects a second, hardly any of them in cycles. To look through the young ones each 700,
    as Python does by itself, takes a tenth of a busy process's CPU; what the project has set higher, or off, stays."""
    young, *older = gc.get_threshold()
    if 0 < young < YOUNG_OBJECTS:
        gc.set_threshold(YOUNG_OBJECTS, *older)


def share_arenas() -> None:
    """At most ``ARENAS`` from now on, in this process and not in those that its steps start. What the environment says
    of it stays; where the C library is another than glibc, nothing happens."""
    if "MALLOC_ARENA_MAX" in os.environ or "malloc.arena_max" in os.environ.get("GLIBC_TUNABLES", ""):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_ARENA_MAX, ARENAS)
