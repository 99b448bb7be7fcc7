"""How what a run of chaos came to is shown: a table, and the last line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.chaos.allowance import WANTED_SECONDS
from tests.chaos.checker import LOST, REPEATED, STALE
from tests.chaos.goals import Missed, Verdict, missed, verdict
from tests.chaos.handovers import TO_NEW, TO_OLD
from tests.chaos.recovery import percentile
from tests.chaos.story import TERMINAL
from tests.chaos.totals import Totals
from tests.chaos.tries import Earlier

SHOWN = 30


def table(totals: Totals) -> str:
    lines = [f"{'fault':22} {'done':>6} {'hit a step':>11}"]
    lines += [f"{kind:22} {count:6,} {totals.hits[kind]:11,}" for kind, count in sorted(totals.faults.items())]
    lines += [f"{'together':22} {totals.faults.total():6,} {totals.hits.total():11,}", ""]
    ended = ", ".join(f"{count:,} {status}" for status, count in totals.ended.most_common())
    lines.append(f"{totals.runs:,} runs ({ended}), {totals.steps:,} executions of steps")
    lines.append(f"{totals.cancelled_children:,} children were cancelled with their parents")
    lines.append(f"{totals.acknowledged:,} acknowledged, {totals.unknown:,} of which nobody heard")
    if not totals.old:
        lines.append(f"{totals.fires:,} instants of a schedule")
    lines.append(
        f"{totals.poisoned:,} steps killed their process,"
        f" {totals.starved:,} of {totals.claims:,} leases lapsed without a fault"
    )
    why = ", ".join(f"{count:,} after {what}" for what, count in totals.repetitions.most_common())
    lines.append(f"{totals.repetitions.total():,} executions of steps were repetitions: {why or 'none'}")
    lines.append(f"{totals.zombies:,} steps ended without a claim, {totals.contested:,} of them beside an heir")
    if totals.old:
        counts = ", ".join(f"{totals.handovers[direction]:,} from {direction} code" for direction in (TO_NEW, TO_OLD))
        lines.append(f"{totals.old} workers of the released version; runs went on elsewhere: {counts}")
        lines.append(f"  {totals.not_undone:,} cancelled runs it ended with nothing undone, as nobody knew them")
    p50, p99, most = (percentile(totals.seen, part) for part in (0.5, 0.99, 1.0))
    lines.append(
        f"recovery of {len(totals.seen):,} runs after a SIGKILL: p50 {p50:.2f} s, p99 {p99:.2f} s, longest {most:.2f} s"
    )
    p50 = percentile(totals.clear, 0.5)
    lines.append(
        f"  without the time that PostgreSQL or every supervisor was away ({len(totals.clear):,}): p50 {p50:.2f} s,"
        f" p99 {totals.clear_p99:.2f} s"
    )
    lines.append(
        f"  {WANTED_SECONDS:.1f} s wanted, and {totals.beyond_wanted:,} took longer;"
        f" {_span(_allowed(totals))} s allowed where a start takes {_span(_starts(totals))} s, and"
        f" {totals.beyond_allowed:,} took longer than their round allows; {totals.hit_again:,} were hit again"
    )
    lines += [str(violation) for violation in totals.violations[:SHOWN]]
    if len(totals.violations) > SHOWN:
        lines.append(f"... and {len(totals.violations) - SHOWN:,} more")
    return "\n".join(lines)


def as_data(totals: Totals, earlier: Sequence[Earlier] = ()) -> dict[str, Any]:
    """The last line. ``earlier``: the tries that did not count, in whose place this one came."""
    return {
        "seed": totals.seed,
        "duration": round(totals.seconds, 1),
        "runs": totals.runs,
        "acknowledged": totals.acknowledged,
        "unknown": totals.unknown,
        "finished": sum(totals.ended[status] for status in TERMINAL),
        "cancelled_children": totals.cancelled_children,
        "faults": dict(sorted(totals.faults.items())),
        "faults_total": totals.faults.total(),
        "hit_a_running_step": totals.hits.total(),
        "lost": totals.count(LOST),
        "stale_writes": totals.count(STALE),
        "unexplained_repetitions": totals.count(REPEATED),
        "unfinished": totals.count(("unfinished",)),
        "repetitions": dict(sorted(totals.repetitions.items())),
        "claims": totals.claims,
        "starved": totals.starved,
        "zombies": totals.zombies,
        "zombies_beside_an_heir": totals.contested,
        "old_workers": totals.old,
        "handovers": dict(sorted(totals.handovers.items())),
        "not_undone": totals.not_undone,
        "fires": totals.fires,
        "recovery": {
            "p50": round(percentile(totals.seen, 0.5), 2),
            "p99": round(percentile(totals.seen, 0.99), 2),
            "max": round(percentile(totals.seen, 1.0), 2),
            "clear": len(totals.clear),
            "clear_p99": round(totals.clear_p99, 2),
            "wanted": WANTED_SECONDS,
            "within_wanted": bool(totals.clear) and totals.clear_p99 <= WANTED_SECONDS,
            "beyond_wanted": totals.beyond_wanted,
            "allowed": [round(seconds, 2) for seconds in _ends(_allowed(totals))],
            "beyond_allowed": totals.beyond_allowed,
            "start": [round(seconds, 2) for seconds in _ends(_starts(totals))],
            "hit_again": totals.hit_again,
            "hit_again_part": round(totals.hit_again / max(1, len(totals.recoveries)), 3),
        },
        "violations": len(totals.violations),
        "ok": verdict(totals) is Verdict.HOLDS,
        "missed": [_figures(goal) for goal in missed(totals)],
        "tries": len(earlier) + 1,
        "missed_before": [{"seed": one.seed, "missed": [_figures(goal) for goal in one.missed]} for one in earlier],
    }


def _allowed(totals: Totals) -> list[float]:
    """What each round allows."""
    return [one.allowed for one in totals.rounds]


def _starts(totals: Totals) -> list[float]:
    return [one.start for one in totals.rounds]


def _ends(values: Sequence[float]) -> tuple[float, float]:
    """The least and the most; 0 of none."""
    return min(values, default=0.0), max(values, default=0.0)


def _span(values: Sequence[float]) -> str:
    least, most = (f"{seconds:.1f}" for seconds in _ends(values))
    return least if least == most else f"{least} to {most}"


def _figures(goal: Missed) -> dict[str, Any]:
    return {"goal": goal.goal, "figure": goal.figure, "wanted": goal.wanted}
