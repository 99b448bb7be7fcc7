"""Faults of what runs wait for: time, events, children, a deadline, a cancellation."""

from __future__ import annotations

from .mutant import POSTGRES, Mutant

WAKES = [
    Mutant(
        "suspension-without-a-look",
        "store/sql/commits.py",
        "goes_on = has_reason(d)",
        'goes_on = "(1 = 0)"',
        "A run waits for an event that came while it was at work.",
        (
            "tests/store/test_waiting.py::test_an_event_before_the_suspension_leaves_no_waiting_run",
            "tests/store/test_waiting_children.py::test_a_child_that_ended_before_its_parent_waits",
        ),
    ),
    Mutant(
        "suspension-on-the-fence-s-snapshot",
        "store/dialects.py",
        "BEGIN ISOLATION LEVEL READ COMMITTED",
        "BEGIN ISOLATION LEVEL REPEATABLE READ",
        "A suspension looks for reasons on the snapshot of the fence, as if it were a part of that statement.",
        ("tests/store/test_postgres_suspending.py",),
        POSTGRES,
    ),
    Mutant(
        "wake-skips-a-held-row",
        "store/recovery.py",
        "return _wake(db, run_id, skips=False) or []",
        "return _wake(db, run_id, skips=True) or []",
        "A wake passes by a run that is about to wait.",
        ("tests/store/test_postgres_locks.py::test_a_wake_names_the_run_that_somebody_holds",),
        POSTGRES,
    ),
    Mutant(
        "sweep-without-children",
        "store/sql/waits.py",
        """            UNION {awaiting} {d.begins_with("r.waiting_on", "child:")}\n""",
        "",
        "A parent whose child's process died before it woke it waits for ever.",
        ("tests/store/test_sweeping.py::test_the_sweep_finds_who_overslept",),
    ),
    Mutant(
        "sweep-without-cancellations",
        "store/sql/waits.py",
        "            UNION {awaiting} r.cancel_requested_at IS NOT NULL\n",
        "",
        "A run that was asked to stop waits for ever where the canceller died before it woke it.",
        ("tests/store/test_sweeping.py::test_the_sweep_finds_who_overslept",),
    ),
    Mutant(
        "only-success-ends-a-wait",
        "store/sql/waits.py",
        "WHERE c.parent_id = j.run_id AND c.parent_path = j.path AND {IS_LIVE}))",
        "WHERE c.parent_id = j.run_id AND c.parent_path = j.path AND c.status <> 'succeeded'))",
        "A parent waits for ever for a child that has failed.",
        ("tests/store/test_waiting_children.py::test_a_child_that_ended_before_its_parent_waits",),
    ),
    Mutant(
        "only-success-wakes-the-parent",
        "worker/aftermath.py",
        "if receipt.parent_id is not None and receipt.status in TERMINAL:",
        'if receipt.parent_id is not None and receipt.status == "succeeded":',
        "A child that fails leaves its parent to the sweep.",
        ("tests/worker/test_ends_of_children.py",),
    ),
    Mutant(
        "taken-events-come-again",
        "store/sql/claims.py",
        " AND consumed_at IS NULL ORDER BY id",
        " ORDER BY id",
        "A claim brings events that a wait has taken before.",
        ("tests/store/test_claiming.py::test_a_claim_brings_the_journal_the_events_and_the_children_that_are_over",),
    ),
    Mutant(
        "event-taken-twice",
        "store/sql/commits.py",
        "AND e.run_id = c.run_id AND e.consumed_at IS NULL",
        "AND e.run_id = c.run_id",
        "A second wait takes an event that the first has taken.",
        ("tests/store/test_waiting_time.py::test_events_are_consumed_once_and_only_by_their_run",),
    ),
]

TIMES = [
    Mutant(
        "transaction-s-clock",
        "store/dialects.py",
        'if seconds else "statement_timestamp()"',
        'if seconds else "now()"',
        "What is decided at the end of a long transaction is decided by the time of its beginning.",
        ("tests/store/test_postgres_clock.py",),
        POSTGRES,
    ),
    Mutant(
        "due-when-it-is-not",
        "store/sql/claims.py",
        "r.wake_at <= {d.now} AND {FREE}",
        "r.wake_at >= {d.now} AND {FREE}",
        "A claim takes what sleeps, and leaves what has come due.",
        ("tests/store/test_waiting_time.py::test_a_wait_ends_not_early_and_not_late_by_the_clock_of_the_database",),
    ),
    Mutant(
        "sleep-by-the-local-clock",
        "core/kinds/sleeps.py",
        "flow.journal.now() >= entry.wake_at",
        "datetime.now(UTC) >= entry.wake_at",
        "A sleep ends early where a machine's clock is ahead of the database's.",
        ("tests/core/kinds/test_sleeps.py::test_it_never_ends_early",),
    ),
    Mutant(
        "wait-beyond-the-deadline",
        "store/sql/commits.py",
        "wake_at = d.least(first, bound)",
        "wake_at = first",
        "A run that waits past its deadline is not ended by it.",
        ("tests/store/test_waiting_time.py::test_the_deadline_bounds_the_wait",),
    ),
    Mutant(
        "deadline-ignored",
        "core/flow/halting.py",
        "and now() >= run.deadline_at:",
        "and now() >= run.deadline_at and lease.is_lost:",
        "A run begins steps after its deadline.",
        ("tests/core/flow/test_flow.py::test_the_deadline_itself_is_too_late",),
    ),
]

CANCELLATIONS = [
    Mutant(
        "completion-over-cancellation",
        "store/sql/commits.py",
        'cancels = f"r.cancel_requested_at IS NOT NULL AND',
        'cancels = f"(1 = 0) AND',
        "A run succeeds although its cancellation was acknowledged before.",
        ("tests/store/test_fence.py::test_the_cancellation_that_came_first_wins_and_the_result_is_kept",),
    ),
    Mutant(
        "resume-without-audit",
        "store/transitions.py",
        'audit(db, _statuses(runs), "resume", by)',
        'audit(db, [], "resume", by)',
        "Nobody can tell who let a run that was over go on.",
        ("tests/store/test_transitions.py::test_a_resumed_run_begins_anew_with_its_journal",),
    ),
]
