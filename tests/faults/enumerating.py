"""All faults of a scenario, one after the other, in one lane."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from tests.faults.cases import Case, Report
from tests.faults.kinds import Action
from tests.faults.lane import Lane


def enumerated(
    lane: Lane, scenario: str, actions: Sequence[Action], only: int | None = None, *, with_repeats: bool = False
) -> Iterator[Report]:
    """The scenario untouched, then each action at each point that it passed there (or at the ``only`` one). A report
    that has been given may be added to until the last one was."""
    untouched = lane.run(Case(scenario))
    yield untouched
    for k, point in enumerate(untouched.points, 1):
        possible = point.allows | point.repeats if with_repeats or only else point.allows
        for action in actions:
            if action in possible and only in (None, k):
                report = lane.run(Case(scenario, action, k))
                report.problems += _strayed(report, untouched)
                yield report
    lane.inspect()


def _strayed(report: Report, untouched: Report) -> Iterator[str]:
    """Where the way to the fault was not that of the untouched scenario: then it was made at another point."""
    expected = untouched.points[: report.case.k]
    if report.points != expected:
        pairs = enumerate(zip_longest(report.points, expected), 1)
        number, (was, is_to_be) = next((number, pair) for number, pair in pairs if pair[0] != pair[1])
        yield f"point {number} is {was and was.label!r}, and untouched it is {is_to_be and is_to_be.label!r}"
