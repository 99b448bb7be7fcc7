"""Time-outs of code in a thread that come when the test says so: by then the code is where the test wants it to be."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from django_durable.executor.deadline import _Watch, watchdog


def timed_by_hand(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From now on no call's time is over, until what this returns says so of the call that began last."""
    watch, watches = watchdog.watch, list[_Watch]()

    def time_is_over() -> None:
        watch(watches[-1], 0)

    monkeypatch.setattr(watchdog, "watch", lambda begun, seconds: watches.append(begun))
    return time_is_over
