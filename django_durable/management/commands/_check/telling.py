"""Findings as lines, and as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ....store.invariants import Finding
from .._shell import printable

VERDICTS = {True: "ok", False: "VIOLATED", None: "not known"}


def lines(finding: Finding) -> Iterator[str]:
    """The verdict, and below it each violation, or why there is no verdict."""
    verdict = "not seen" if finding.holds is None and not finding.not_known else VERDICTS[finding.holds]
    yield f"{verdict:9} {finding.id:7}  {finding.text}"
    for violation in finding.violations:
        yield f"{'':10}{violation.run_id or '-'}  {printable(violation.problem)}"
    for why in filter(None, (finding.not_known, finding.not_looked_at)):
        yield f"{'':10}{printable(why)}"


def as_data(findings: Sequence[Finding]) -> dict[str, Any]:
    """``ok``: nothing is violated. ``known``: and there is nothing of which nobody knows."""
    return {
        "ok": not any(one.violations for one in findings),
        "known": not any(one.not_known for one in findings),
        "invariants": {one.id: _data(one) for one in findings},
    }


def _data(finding: Finding) -> dict[str, Any]:
    return {
        "holds": finding.holds,
        "text": finding.text,
        "violations": [
            {"run": None if one.run_id is None else str(one.run_id), "problem": one.problem}
            for one in finding.violations
        ],
        "rows": finding.rows,
        "seconds": round(finding.seconds, 3),
        "not_known": finding.not_known or None,
        "not_looked_at": finding.not_looked_at or None,
    }
