"""Faults of steps: what is stored when, what is tried again when, what is undone in which order."""

from __future__ import annotations

from .mutant import POSTGRES, Mutant

RESULTS = [
    Mutant(
        "first-result-not-read-back",
        "core/kinds/steps.py",
        "return performed.value if is_plain(performed.value) else decode(cast(str, entry.value))",
        "return performed.value",
        "A step returns another value when it runs than when it is replayed.",
        ("tests/core/kinds/test_steps.py::test_a_result_is_a_copy",),
    ),
    Mutant(
        "step-before-its-commit",
        "core/kinds/steps.py",
        "if not options.ephemeral:",
        "if options.compensate is not None:",
        "The workflow goes on with the result of a step that is not stored yet.",
        ("tests/core/kinds/test_steps.py::test_a_step_is_committed_before_the_workflow_goes_on",),
    ),
    Mutant(
        "attempt-of-an-ended-line-lost",
        "executor/async_driver.py",
        """            absorb(self._flow, branch)""",
        """            pass""",
        "A step that failed while a drain ended the lines around it is tried as if it had not been.",
        (
            "tests/executor/test_branch_drains.py"
            "::test_an_attempt_that_fails_when_a_drain_ends_the_lines_around_it_is_journaled",
        ),
    ),
    Mutant(
        "forgotten-with-its-successor",
        "store/batch.py",
        "self.has_order = self.has_order or not write.forgotten.isdisjoint(write.entries)",
        "pass",
        "An entry and the one whose place it takes are written by two parts of one statement, which see nothing of it.",
        ("tests/store/test_forgetting.py::test_what_takes_the_place_of_what_is_forgotten_stays",),
        backend=POSTGRES,
    ),
    Mutant(
        "body-outside-of-its-transaction",
        "executor/atomic.py",
        "with _writer(db), transaction.atomic(using=db.alias):",
        "with _writer(db), nullcontext():",
        "What an atomic step did before it raised stays.",
        ("tests/executor/test_atomic.py::test_a_body_that_raises_leaves_nothing_and_is_tried_again",),
    ),
    Mutant(
        "lost-connection-fails-the-write",
        "store/reaching.py",
        "return not state.startswith(PROGRAM_LIMIT_EXCEEDED)",
        "return state.startswith(PROGRAM_LIMIT_EXCEEDED)",
        "A database that is away for a moment fails the steps of that moment.",
        ("tests/worker/committing/test_committer.py::test_a_lost_connection_is_tried_again",),
    ),
    Mutant(
        "run-in-two-commits",
        "worker/committer.py",
        "behind = set(self._under_way)",
        "behind: set[int] = set()",
        "A run's outcome is committed beside the step before it, which is lost then.",
        ("tests/worker/committing/test_relief.py::test_a_run_is_in_one_commit_at_a_time",),
    ),
    Mutant(
        "relief-takes-threads",
        "worker/committer.py",
        "if beside and one.may_lead:",
        "if False:",
        "A thread is answered by one commit and roused to lead another: who waits behind it waits for ever.",
        ("tests/worker/committing/test_relief.py::test_a_thread_leads_beside_a_relief_and_is_not_taken_by_it",),
    ),
    Mutant(
        "full-batch-waits-for-its-loop",
        "worker/committer.py",
        "takes = self._to_wait_for() if is_called and is_full else None",
        "takes = None",
        "Beside a slow disk whoever was called for a full batch comes when the loop has done all else.",
        ("tests/worker/committing/test_giving_way.py::test_a_loop_that_fills_a_batch_lets_it_be_taken",),
    ),
    Mutant(
        "left-task-is-not-seen",
        "executor/async_calls.py",
        "return made is None or made != self._made_before or task is None or task.cancelling() > 0",
        "return False",
        "A ctx call in a task that nobody awaits is lost without a word, and the run succeeds.",
        ("tests/executor/test_side_by_side.py::test_a_thread_is_waited_for",),
    ),
    Mutant(
        "read-only-fails-the-write",
        "store/reaching.py",
        "return state in SESSION_IS_UNFIT",
        "return False",
        "A server that was demoted fails the steps that are done, and its session is kept.",
        (
            "tests/worker/test_postgres_read_only.py"
            "::test_a_commit_that_is_refused_by_a_read_only_session_is_sent_again_on_another_one",
        ),
        backend=POSTGRES,
    ),
    Mutant(
        "nobody-gives-way",
        "executor/atomic.py",
        "if not tries % TRIES_FOR_A_LOOK and is_waited_for(db):",
        "if False:",
        "An atomic step and a view that cancels its run wait for each other until the lease is over.",
        ("tests/reliability/test_postgres_cycles.py::test_the_step_gives_way_and_is_done_once",),
        backend=POSTGRES,
    ),
]

ATTEMPTS = [
    Mutant(
        "attempt-not-counted",
        "core/kinds/steps.py",
        "(entry.attempts + 1, entry.value) if entry",
        "(entry.attempts, entry.value) if entry",
        "A step that fails is tried for ever.",
        ("tests/core/kinds/test_steps.py::test_back_off_suspends_and_wakes",),
    ),
    Mutant(
        "no-back-off",
        "core/kinds/steps.py",
        "if entry.status == EntryStatus.RETRYING and entry.wake_after:",
        "if entry.status == EntryStatus.RETRYING and entry.wake_at:",
        "A step that fails is tried again at once.",
        ("tests/core/kinds/test_steps.py::test_back_off_suspends_and_wakes",),
    ),
    Mutant(
        "back-off-cut-short",
        "core/kinds/steps.py",
        "return bool(entry.wake_after) if entry.wake_at is None else flow.journal.now() < entry.wake_at",
        "return bool(entry.wake_after) and entry.wake_at is None",
        "A step is tried again too early where its run was woken for another reason.",
        ("tests/core/kinds/test_steps.py::test_back_off_suspends_and_wakes",),
    ),
    Mutant(
        "undone-first-to-last",
        "core/kinds/compensation.py",
        "sorted(undos, key=lambda undo: undo.seq, reverse=True)",
        "sorted(undos, key=lambda undo: undo.seq)",
        "What was done first is undone first, under what was built on it.",
        (
            "tests/core/kinds/test_compensation.py"
            "::test_completed_steps_are_undone_last_first_and_the_failed_one_is_not",
        ),
    ),
]
