"""Processes that go on from here, for rescue and victims."""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Callable


def fork(child: Callable[[], None]) -> int:
    """The pid of a process that does ``child`` and ends."""
    gc.freeze()
    if pid := os.fork():
        return pid
    try:
        child()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(1)
