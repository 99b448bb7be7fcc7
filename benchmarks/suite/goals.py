"""The goals: ratios of figures that were measured in the same run, and how large they have to be; a few are bounds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from statistics import median

from .ledger import Ledger, Series
from .systems import FLOOR, OWN

Source = tuple[str, ...]
"""A system and its variants; the best of them counts. Without a variant, all that were measured."""

SYNC, ASYNC, SYNC_DATABASE, ASYNC_DATABASE = (
    (OWN, variant) for variant in ("sync", "async", "sync-database", "async-database")
)
PINNED, MANY_THREADS = (OWN, "sync-pinned"), (OWN, "sync", "sync-threads")
PLAIN = (OWN, "sync-plain")
DBOS, ABSURD, RESTATE = ("dbos",), ("absurd",), ("restate",)
CELERY, DRAMATIQ, LIMITS = ("celery",), ("dramatiq",), (FLOOR,)


@dataclass(frozen=True)
class Goal:
    """``ours`` of ``figure`` over ``theirs`` of ``other`` (by default the same figure), at least ``factor``.

    ``is_less``: both are times, and the ratio may be at most ``factor``.
    """

    name: str
    figure: str
    ours: Source
    theirs: Source
    factor: float
    other: str = ""
    is_less: bool = False
    in_turns: bool = False
    """Both were measured by turns: the ratio is the median of those of neighbours. The machine's pace may change in the
    midst, and then the medians of the two may be of different minutes."""


GOALS = (
    Goal("S1_enqueue_vs_dbos", "S1_enqueue", SYNC, DBOS, 2),
    Goal("S1_enqueue_vs_create", "S1_enqueue", SYNC, LIMITS, 0.9),
    Goal("S1_bulk_vs_dbos", "S1_bulk", SYNC, DBOS, 8),
    Goal("S1_bulk_vs_bulk_create", "S1_bulk", SYNC, LIMITS, 0.7),
    Goal("S1_bulk_vs_batched_insert", "S1_bulk", SYNC, LIMITS, 0, other="batched_insert"),
    Goal("S2_drain_vs_dbos", "S2_drain", SYNC, DBOS, 8),
    Goal("S2_drain_vs_absurd", "S2_drain", SYNC, ABSURD, 4),
    Goal("S2_drain_vs_celery", "S2_drain", SYNC, CELERY, 1.5),
    Goal("S2_pinned_vs_dbos", "S2_drain", PINNED, DBOS, 0),
    Goal("S2_drain_vs_batched_insert", "S2_drain", SYNC, LIMITS, 0, other="batched_insert"),
    Goal("S2_async_vs_dbos", "S2_drain", ASYNC, DBOS, 15),
    Goal("S2_async_vs_dramatiq", "S2_drain", ASYNC, DRAMATIQ, 1),
    Goal("S2_async_vs_batched_insert", "S2_drain", ASYNC, LIMITS, 0, other="batched_insert"),
    Goal("S3_sync_vs_dbos", "S3_steps", SYNC, DBOS, 15),
    Goal("S3_sync_vs_absurd", "S3_steps", SYNC, ABSURD, 5),
    Goal("S3_sync_vs_restate", "S3_steps", SYNC, RESTATE, 2),
    Goal("S3_pinned_vs_dbos", "S3_steps", PINNED, DBOS, 0),
    Goal("S3_pinned_vs_restate", "S3_steps", PINNED, RESTATE, 0),
    Goal("S3_sync_vs_batched_insert", "S3_steps", SYNC, LIMITS, 0, other="batched_insert"),
    Goal("S3_async_vs_dbos", "S3_steps", ASYNC, DBOS, 35),
    Goal("S3_async_vs_batched_insert", "S3_steps", ASYNC, LIMITS, 0, other="batched_insert"),
    Goal("S6_latency_vs_dbos", "S6_latency_p50_ms", SYNC, DBOS, 1, is_less=True),
    Goal("S6_latency_vs_restate", "S6_latency_p50_ms", SYNC, RESTATE, 1, is_less=True),
    Goal("S6_p99_vs_p50", "S6_latency_p99_ms", SYNC, SYNC, 3, other="S6_latency_p50_ms", is_less=True),
    Goal("S9_mixed_vs_dbos", "S9_mixed", SYNC, DBOS, 3),
)
"""A ``factor`` of 0 is no goal: how near we are to the physical limit, and what pinning adds, is shown and not
promised."""

REST_GOALS = (
    *(
        Goal(f"S5_{name}", f"S5_with_{door}", ours, ours, 0.9, other=f"S5_without_{door}", in_turns=True)
        for name, door, ours in (
            ("enqueue_with_history", "enqueue", SYNC),
            ("enqueue_database", "enqueue", SYNC_DATABASE),
            ("bulk_with_history", "bulk", SYNC),
            ("bulk_database", "bulk", SYNC_DATABASE),
            ("drain_with_history", "drain", SYNC),
            ("drain_async", "drain", ASYNC),
            ("drain_database", "drain", SYNC_DATABASE),
        )
    ),
    Goal("S8_child_many_vs_few", "S8_many_child_ms", SYNC, SYNC, 1.2, other="S8_few_child_ms", is_less=True),
    Goal("S8_child_database", "S8_many_child_ms", SYNC_DATABASE, SYNC_DATABASE, 1.2, "S8_few_child_ms", is_less=True),
    Goal("S8_turn_late_vs_early", "S8_late_turn_us", SYNC, SYNC, 1.2, other="S8_early_turn_us", is_less=True),
    Goal("S8_worker_turn_late_vs_early", "S8_late_turn_ms", SYNC, SYNC, 1.2, other="S8_early_turn_ms", is_less=True),
    Goal("S5_drain_vs_dbos", "S5_with_drain", SYNC, DBOS, 0),
    Goal("S8_child_vs_dbos", "S8_many_child_ms", SYNC, DBOS, 0, is_less=True),
    Goal("S8_child_vs_restate", "S8_many_child_ms", SYNC, RESTATE, 0, is_less=True),
    Goal("S8_turn_vs_dbos", "S8_late_turn_ms", PLAIN, DBOS, 0, is_less=True),
    Goal("S8_turn_vs_restate", "S8_late_turn_ms", PLAIN, RESTATE, 0, is_less=True),
    *(
        Goal(f"S10_{door}_{name}", f"S10_slow_{door}", ours, ours, factor, other=f"S10_fast_{door}")
        for door in ("drain", "steps")
        for name, ours, factor in (
            ("threads", MANY_THREADS, 0.6),
            ("async", ASYNC, 0.6),
            ("default", SYNC, 0),
            ("database", SYNC_DATABASE, 0),
        )
    ),
    *(
        Goal(f"S10_{door}_{name}_vs_dbos", f"S10_slow_{door}", ours, ("dbos", name), 0)
        for door in ("drain", "steps")
        for name, ours in (("sync", SYNC), ("async", ASYNC))
    ),
)
"""Of ``rest``: how this project's figures bear what is in the tables, or a slow disk; those to others are shown. On
that disk ``threads`` is the better of the default and of as many as are recommended for it: 32 runs put no more than 32
steps into a commit of three milliseconds, so what they keep by ``default`` is shown without a goal."""

BOUNDS = (("S6_latency_p50_ms", SYNC_DATABASE, 1_000),)
"""Figures that may be so much at most, in their own unit, whatever the machine. The one of S6 is the ``POLL_SECONDS``
that a run waits where nobody tells of it."""

REST_BOUNDS = (
    *(("S7_lag_p99_ms", variant, 1_000) for variant in (SYNC, ASYNC, SYNC_DATABASE)),
    *(("S7_rss_more_mb", variant, 20) for variant in (SYNC, ASYNC, SYNC_DATABASE)),
    *((f"replay_us@{entries}", SYNC, 15) for entries in (10, 100, 1_000)),
)
"""The same, of ``rest``."""

IN_COMMITS = {
    "S4_step_vs_commit": ("S4_step_ms", SYNC, "S4_commit_ms", 1.3, 0.15),
    "S4_async_vs_commit": ("S4_step_ms", ASYNC, "S4_commit_ms", 1.3, 0.15),
    "S6_latency_vs_commits": ("S6_latency_p50_ms", SYNC, "S6_commit_ms", 4, 2.0),
}
"""Times that may be so many commits of the same minutes, and so many milliseconds more."""

FIRST = ("_dbos", "_batched_insert", "_commit", "_commits")
"""How ratios end that are told first: to DBOS and to what the machine can do at all."""


@dataclass(frozen=True)
class Verdict:
    name: str
    ratio: float
    goal: float
    """0: there is none."""
    is_met: bool
    is_less: bool = False
    """Whether the goal is the most that the ratio may be, and not the least."""


def verdicts(ledger: Ledger) -> list[Verdict]:
    """Of every goal whose figures are there, of the two that are sums of times, and of the bounds: ``FIRST`` first."""
    found = [verdict for goal in (*GOALS, *REST_GOALS) if (verdict := _ratio(ledger, goal))]
    found += [*_in_commits(ledger), *_in_bounds(ledger)]
    return sorted(found, key=lambda verdict: not verdict.name.endswith(FIRST))


def judge(ledger: Ledger) -> list[Verdict]:
    """``verdicts``, which stand beside the figures from now on."""
    found = verdicts(ledger)
    ledger.ratios = {verdict.name: asdict(verdict) for verdict in found}
    return found


def unmeasured(ledger: Ledger) -> list[str]:
    """The goals of the comparison of which this run can say nothing, since a system or a scenario was left out."""
    known = {verdict.name for verdict in verdicts(ledger)}
    bounds = (_bound_name(figure, variant) for figure, (_, variant), _ in BOUNDS)
    return [name for name in (*(goal.name for goal in GOALS), *IN_COMMITS, *bounds) if name not in known]


def _ratio(ledger: Ledger, goal: Goal) -> Verdict | None:
    ratio = _of_turns(ledger, goal) if goal.in_turns else _of_medians(ledger, goal)
    if ratio is None:
        return None
    is_met = not goal.factor or (ratio <= goal.factor if goal.is_less else ratio >= goal.factor)
    return Verdict(goal.name, ratio, goal.factor, is_met, goal.is_less)


def _of_medians(ledger: Ledger, goal: Goal) -> float | None:
    ours = _best(ledger, goal.figure, goal.ours, is_less=goal.is_less)
    theirs = _best(ledger, goal.other or goal.figure, goal.theirs, is_less=goal.is_less)
    if ours is None or theirs is None:
        return None
    return ours / theirs


def _of_turns(ledger: Ledger, goal: Goal) -> float | None:
    ours = ledger.figure(goal.figure, *goal.ours)
    theirs = ledger.figure(goal.other, *goal.theirs)
    if ours is None or theirs is None:
        return None
    return median(one / other for one, other in zip(ours.values, theirs.values, strict=True))


def _in_commits(ledger: Ledger) -> Iterable[Verdict]:
    """A sequential step and a lone run cost so many commits, and little more."""
    for name, (figure, source, of_commit, commits, more) in IN_COMMITS.items():
        ours = _best(ledger, figure, source, is_less=True)
        commit = _best(ledger, of_commit, LIMITS, is_less=True)
        if ours is not None and commit is not None:
            allowed = commits * commit + more
            yield Verdict(name, ours / allowed, 1, ours <= allowed, is_less=True)


def _in_bounds(ledger: Ledger) -> Iterable[Verdict]:
    for figure, (system, variant), most in (*BOUNDS, *REST_BOUNDS):
        series = ledger.figure(figure, system, variant)
        if series is not None:
            yield Verdict(_bound_name(figure, variant), series.median, most, series.median <= most, is_less=True)


def _bound_name(figure: str, variant: str) -> str:
    return f"{figure} {variant}"


def _best(ledger: Ledger, figure: str, source: Source, *, is_less: bool) -> float | None:
    system, *variants = source
    medians = [
        series.median
        for series in ledger.series.values()
        if _is_of(series, figure, system) and (not variants or series.variant in variants)
    ]
    return (min if is_less else max)(medians, default=None)


def _is_of(series: Series, figure: str, system: str) -> bool:
    return series.figure == figure and series.system == system
