"""For the tests of people who use django_durable: no worker, no Redis, no real sleep, no thread (docs/testing.md)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .asserting import assert_enqueued, assert_fired, assert_not_enqueued, assert_step_ran
    from .crashing import crash_after
    from .errors import NotDeterministic, NotIdle, StepNotReached
    from .replaying import force_replay
    from .running import arun_until_idle, run_until_idle
    from .travelling import TravelClock, travel

__all__ = [
    "NotDeterministic",
    "NotIdle",
    "StepNotReached",
    "TravelClock",
    "arun_until_idle",
    "assert_enqueued",
    "assert_fired",
    "assert_not_enqueued",
    "assert_step_ran",
    "crash_after",
    "force_replay",
    "run_until_idle",
    "travel",
]

_MODULES = ("asserting", "crashing", "errors", "replaying", "running", "travelling")

if not TYPE_CHECKING:
    # At first use: the pytest plugin lies in this package, and pytest imports it in every project of the machine.
    def __getattr__(name: str) -> Any:
        if name in __all__:
            for module in _MODULES:
                if name in vars(found := import_module(f"{__name__}.{module}")):
                    return getattr(found, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
