"""Faults of the engine that are planted to be found. Each is called in a process of its own, which ends with it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from django.db import OperationalError
from django.utils import timezone

from tests.faults.enumerating import enumerated
from tests.faults.kinds import Action
from tests.faults.lane import Lane

Problems = dict[str, list[str]]
"""What is wrong, by the label of the point."""


def found(folder: Path, plant: Callable[[], None], scenario: str, action: Action, least: int = 20) -> Problems:
    """What the enumeration reports. ``least``: with fewer cases it would show nothing."""
    with Lane(folder, plant) as lane:
        reports = list(enumerated(lane, scenario, [action]))
    assert len(reports) > least, len(reports)
    problems: Problems = defaultdict(list)
    for report in reports:
        if report.problems:
            problems[report.label or "untouched"] += report.problems
    return dict(problems)


def open_the_fence() -> None:
    """Whoever writes for a run may: its token is not compared, and what is written is written under it."""
    from django_durable.store.sql import commits, leases

    ours, fence = leases.ours, commits.fence

    def anybodys(d: Any, ids: str = "") -> str:
        statement = ours(d, ids)
        assert "r.lease_token = i.token" in statement
        return statement.replace("r.lease_token = i.token", "1 = 1")

    commits.ours = anybodys  # type: ignore[attr-defined]
    leases.ours = anybodys
    commits.fence = lambda d, ids="": fence(d, ids).replace("r.lease_token AS token", "i.token AS token")


def lose_hints() -> None:
    """Nothing looks for runs that no list tells of."""
    from django_durable.worker.claimer import Claimer
    from django_durable.worker.loops.refill import Refill
    from django_durable.worker.loops.sweep import Sweep

    def nobody(*_: object) -> int:
        return 0

    for owner, verb in ((Claimer, "_look"), (Refill, "tick"), (Sweep, "tick")):
        setattr(owner, verb, nobody)


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


def forget_the_claim() -> None:
    """Whatever an atomic step's commit has come to, an error after it is taken for the step's."""
    from django_durable.executor import atomic

    atomic._was_committed = lambda db, flow, path: False


def trust_the_commit() -> None:
    """Whatever an atomic step's commit has come to, the step is taken for done."""
    from django_durable.executor import atomic

    atomic._was_committed = lambda db, flow, path: True


def trust_every_commit() -> None:
    """A COMMIT of the engine's that is refused is taken for done."""
    from django_durable.store.database import PrivateDatabase

    begun = PrivateDatabase._begun

    @contextmanager
    def trusting(db: PrivateDatabase, begin: str) -> Iterator[None]:
        is_at_its_end = False
        try:
            with begun(db, begin):
                yield
                is_at_its_end = True
        except OperationalError:
            if not is_at_its_end:
                raise

    PrivateDatabase._begun = trusting  # type: ignore[method-assign]


def swallow_a_lost_session() -> None:
    """A start whose session is lost is acknowledged."""
    from django_durable.store import meeting

    store = meeting.start_runs

    def swallowing(db: Any, runs: Any) -> Any:
        try:
            return store(db, runs)
        except OperationalError:
            db.connection.close()
            return []

    meeting.start_runs = swallowing


def tell_before_it_is_stored() -> None:
    """The queue is told of a run that is only about to be stored."""
    from django_durable.queues.current import current_queue
    from django_durable.queues.ready import Ready
    from django_durable.store import meeting

    store = meeting.start_runs

    def hasty(db: Any, runs: Any) -> Any:
        current_queue().push([Ready(run.id, run.queue, run.priority) for run in runs])
        return store(db, runs)

    meeting.start_runs = hasty


def ignore_cancellations() -> None:
    """A cancellation is acknowledged, and nobody hears of it."""
    from django_durable.core.flow.lease import Lease
    from django_durable.store.sql import commits

    hear, leave = Lease.hear, commits.leave

    def deaf(lease: Lease, *, cancelling: bool, pausing: bool) -> None:
        hear(lease, cancelling=False, pausing=pausing)

    def in_any_case(d: Any, **options: Any) -> str:
        statement = leave(d, **options)
        assert "r.cancel_requested_at IS NOT NULL AND o.status" in statement
        return statement.replace("r.cancel_requested_at IS NOT NULL AND o.status", "1 = 0 AND o.status")

    Lease.hear = deaf  # type: ignore[method-assign]
    commits.leave = in_any_case


def take_events_first() -> None:
    """An event is taken in a commit of its own, and then the wait that it ends is journaled."""
    from django_durable.core.journal.journal import Write
    from django_durable.worker import batch_writer

    store = batch_writer.write_batch

    def in_two(db: Any, writes: Any) -> Any:
        if taken := [(lease, Write(consumed=write.consumed)) for lease, write in writes if write.consumed]:
            store(db, taken)
        return store(db, writes)

    batch_writer.write_batch = in_two


def sweep_past_children() -> None:
    """No sweep looks for parents whose child is over."""
    from django_durable.store.sql import waits

    find = waits.find_overslept

    def without_children(d: Any) -> str:
        statement = find(d)
        lines = [line for line in statement.splitlines() if "child:" not in line]
        assert len(lines) == len(statement.splitlines()) - 1
        return "\n".join(lines)

    waits.find_overslept = without_children


def undo_from_memory() -> None:
    """A process undoes the steps that it has executed itself, and no others."""
    from django_durable.core.kinds import compensation

    driver: Any = import_module("django_durable.executor.sync_driver")
    call, compensate = driver.call_step, compensation.compensate
    executed = set()

    def remembered(flow: Any, perform: Any) -> Any:
        executed.add((flow.run.run_id, perform.path))
        return call(flow, perform)

    def of_these(flow: Any, undos: Any) -> Any:
        return compensate(flow, [undo for undo in undos if (flow.run.run_id, undo.path) in executed])

    driver.call_step = remembered
    compensation.compensate = of_these


def allow_another_crash() -> None:
    """A run may kill a process more than it may."""
    from django_durable.store import recovery

    take_away = recovery._take_away

    def lenient(db: Any, statement: str, limit: int, lease: float, max_crashes: int, **more: Any) -> Any:
        return take_away(db, statement, limit, lease, max_crashes + 1, **more)

    recovery._take_away = lenient


def keep_crashes() -> None:
    """A run that gets on keeps its crashes."""
    from django_durable.store import committing

    committing._clears = lambda write: False


def fire_in_pieces() -> None:
    """Each statement of a schedule's firing is committed by itself."""
    from django_durable.store import scheduling
    from django_durable.store.database import Database

    fire = scheduling.fire

    class InPieces(Database):
        @contextmanager
        def read_committed(self) -> Iterator[None]:
            yield

    scheduling.fire = lambda db, *given, **more: fire(InPieces(db.alias), *given, **more)
