"""A system of which nothing is asked: for tests of what is done with its figures."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from benchmarks.suite.bench import Bench, Sizes
from benchmarks.suite.systems import Participant


def bench_of(*, is_own: bool = True, part: float = 1.0) -> Bench:
    nothing = cast(Any, SimpleNamespace())
    return Bench(nothing, Participant("somebody", is_own=is_own), *[nothing] * 5, Sizes(), part=part)
