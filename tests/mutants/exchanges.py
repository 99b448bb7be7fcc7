"""Faults of what is said to PostgreSQL without a cursor: not heard of, not read to its end, or left out."""

from __future__ import annotations

from .mutant import POSTGRES, Mutant

TYPED = "tests/store/test_postgres_typed_statements.py::"
OF_THREAD = "tests/store/test_postgres_of_thread.py::"
LONE = "tests/store/test_postgres_lone_step.py::"
AT_ONCE, LOOP_LEADS = "tests/store/test_postgres_at_once.py::", "tests/worker/committing/test_postgres_at_once.py::"

ANSWERS = [
    Mutant(
        "failure-behind-the-result",
        "store/typed_statements.py",
        "if result.status not in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):",
        "if results[0].status not in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):",
        "A commit that the server refuses at its end counts as done.",
        (f"{TYPED}test_a_failure_in_the_commit_itself_is_raised",),
        backend=POSTGRES,
    ),
    Mutant(
        "answer-left-unread",
        "store/kept_cursor.py",
        "self._wrapper.close()",
        "pass",
        "The answer to a statement that was interrupted is taken for the next one's.",
        (f"{TYPED}test_an_answer_that_nobody_waited_for_answers_nothing_else",),
        backend=POSTGRES,
    ),
    Mutant(
        "names-after-a-rollback",
        "store/database.py",
        "self._kept.rolled_back()",
        "pass",
        "After a rollback statements are sent by names that the server does not know any more.",
        (f"{TYPED}test_where_each_statement_has_a_transaction_a_failure_is_nobody_elses",),
        backend=POSTGRES,
    ),
    Mutant(
        "changed-statement-stays",
        "store/typed_statements.py",
        "self._close(driver, name)",
        "pass",
        "Each migration leaves its prepared statements on connections that live long.",
        (f"{OF_THREAD}test_a_statement_that_does_not_fit_any_more_is_closed",),
        backend=POSTGRES,
    ),
]

AT_ONCE_ANSWERS = [
    Mutant(
        "answer-to-another-question",
        "store/typed_statements.py",
        "return rows if (unheard.sql, unheard.values) == (sql, values) else None",
        "return rows",
        "An answer that an event loop did not wait for is taken for that to another question.",
        (
            f"{AT_ONCE}test_an_answer_that_is_out_is_nobody_elses",
            f"{AT_ONCE}test_nor_that_of_the_same_question_with_other_values",
        ),
        backend=POSTGRES,
    ),
    Mutant(
        "branches-keep-the-loop",
        "worker/committer.py",
        "if others or self._has_led_at_once or",
        "if others or",
        "An event loop commits the steps of all branches of a run before it does anything else.",
        (f"{LOOP_LEADS}test_of_branches_the_loop_commits_one_in_each_of_its_turns",),
        backend=POSTGRES,
    ),
    Mutant(
        "loop-commits-for-a-lapsed-lease",
        "worker/batch_writer.py",
        "if not self.expects(one) or lease.is_over or lease.missed_beat:",
        "if not self.expects(one) or lease.missed_beat:",
        "An event loop writes for a run whose lease is over.",
        (f"{LOOP_LEADS}test_a_lease_that_is_to_be_looked_at_is_left_to_who_may_wait",),
        backend=POSTGRES,
    ),
]

LISTENERS = [
    Mutant(
        "unheard-by-wrappers",
        "store/of_thread.py",
        "connection.execute_wrappers",
        "False",
        "A start of a run passes by the wrappers of the project's connection.",
        (f"{OF_THREAD}test_who_listens_hears_of_each",),
        backend=POSTGRES,
    ),
    Mutant(
        "unheard-by-proxies",
        "store/of_thread.py",
        "type(driver) is not Connection or",
        "",
        "A start of a run passes by a tool that has put itself around the driver's connection.",
        (f"{OF_THREAD}test_a_proxy_of_the_driver_s_connection_hears_of_each",),
        backend=POSTGRES,
    ),
    Mutant(
        "start-beside-its-transaction",
        "store/of_thread.py",
        "driver.autocommit",
        "True",
        "A start that autocommit is off for is committed whatever becomes of its transaction.",
        (f"{OF_THREAD}test_in_a_transaction_it_is_a_part_of_that",),
        backend=POSTGRES,
    ),
]

LONE_STEPS = [
    Mutant(
        "lone-step-forgets-the-outcome",
        "store/lone_step.py",
        "if write.outcome is not None or",
        "if",
        "A run whose last step is committed never ends.",
        (f"{LONE}test_whatever_else_there_is_is_written_with_it",),
        backend=POSTGRES,
    ),
    Mutant(
        "lone-step-leaves-suspicion",
        "store/lone_step.py",
        "if entry is None or lease.is_suspect or",
        "if entry is None or",
        "A suspect that goes on from step to step stays one.",
        (f"{LONE}test_a_suspect_is_cleared_by_it",),
        backend=POSTGRES,
    ),
]
