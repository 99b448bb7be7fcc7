"""The enumeration sees: a fault that is planted in the engine is found, and nothing is found without one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from tests.faults.enumerating import enumerated
from tests.faults.kinds import Action
from tests.faults.lane import Lane, nothing

pytestmark = pytest.mark.django_db(transaction=True)

Problems = dict[str, list[str]]
"""What is wrong, by the label of the point."""


def found(folder: Path, plant: Callable[[], None], scenario: str, action: Action) -> Problems:
    """What the enumeration reports."""
    with Lane(folder, plant) as lane:
        reports = list(enumerated(lane, scenario, [action]))
    assert len(reports) > 20
    problems: Problems = defaultdict(list)
    for report in reports:
        if report.problems:
            problems[report.label or "untouched"] += report.problems
    return dict(problems)


def test_nothing_is_found_where_nothing_is_planted(folder: Path) -> None:
    assert found(folder, nothing, "plain", Action.STALL) == {}


def open_the_fence() -> None:
    """Whoever writes for a run may: its token is not compared, and what is written is written under it."""
    from django_durable.store.sql import commits, leases

    ours, fence = leases.ours, commits.fence

    def anybodys(d: Any) -> str:
        statement = ours(d)
        assert "r.lease_token = i.token AND" in statement
        return statement.replace("r.lease_token = i.token AND", "")

    commits.ours = anybodys  # type: ignore[attr-defined]
    leases.ours = anybodys
    commits.fence = lambda d: fence(d).replace("r.lease_token AS token", "i.token AS token")


def test_a_fence_that_lets_everybody_pass_is_found(folder: Path) -> None:
    problems = found(folder, open_the_fence, "plain", Action.STALL)
    assert any("rows of runs that were over have changed" in said for told in problems.values() for said in told)


def lose_hints() -> None:
    """Nothing looks for runs that no list tells of."""
    from django_durable.worker.claimer import Claimer
    from django_durable.worker.loops.refill import Refill
    from django_durable.worker.loops.sweep import Sweep

    def nobody(*_: object) -> int:
        return 0

    for owner, verb in ((Claimer, "_look"), (Refill, "tick"), (Sweep, "tick")):
        setattr(owner, verb, nobody)


def test_a_hint_that_nobody_makes_up_for_is_found(folder: Path) -> None:
    problems = found(folder, lose_hints, "handed-back", Action.DIE)
    assert "untouched" not in problems
    assert any(said.startswith("not finished") for said in problems["redis RPUSH"])


def journal_first() -> None:
    """A step is in the journal before its body begins."""
    from django_durable.core.payloads.codec import encode
    from django_durable.models import JournalEntry

    driver: Any = import_module("django_durable.executor.sync_driver")
    call = driver.call_step

    def journaled(flow: Any, perform: Any) -> Any:
        JournalEntry.objects.create(
            run_id=flow.run.run_id,
            path=perform.path,
            seq=flow.journal.size + 1,
            kind="step",
            status="succeeded",
            attempts=1,
            value=encode(None),
            started_at=timezone.now(),
            finished_at=timezone.now(),
            token=flow.lease.token,
        )
        return call(flow, perform)

    driver.call_step = journaled


def test_a_step_that_is_journaled_before_it_has_run_is_found(folder: Path) -> None:
    problems = found(folder, journal_first, "handed-back", Action.DIE)
    assert any("although its journal entry was committed" in said for said in problems["untouched"])
    # Whoever dies in the body leaves an entry of which nobody has seen the end.
    assert any("nobody has seen that" in said for told in problems.values() for said in told)


def forget_the_claim() -> None:
    """Whatever an atomic step's commit has come to, an error after it is taken for the step's."""
    from django_durable.executor import atomic

    atomic._was_committed = lambda db, flow, path: False


def test_an_atomic_step_that_is_done_twice_is_found(folder: Path) -> None:
    problems = found(folder, forget_the_claim, "atomic", Action.AFTER)
    assert any("its writes stand 2 times" in said for said in problems["COMMIT of Django's"])
