"""Faults of what starts runs and processes, and of what keeps runs: claims, keys, limits, schedules, retention."""

from __future__ import annotations

from .mutant import MET, POSTGRES, STORE, Mutant

PROCESSES = [
    Mutant(
        "one-thread-pinned",
        "worker/affinity.py",
        'for thread in os.listdir(THREADS) if THREADS.exists() else ("0",):',
        'for thread in ("0",):',
        "Threads that the project has started while it was imported stay on all CPUs.",
        ("tests/worker/test_affinity.py::test_threads_that_are_there_already_are_pinned_too",),
    ),
]

STARTS = [
    Mutant(
        "push-before-commit",
        "client/after_commit.py",
        "transaction.on_commit(tell, using=db.alias, robust=True)",
        "tell()",
        "A worker hears of a run before it can see it, and drops the id.",
        ("tests/client/test_pushing.py::test_it_hears_of_them_after_the_commit",),
    ),
    Mutant(
        "claim-of-what-is-over",
        "store/sql/claims.py",
        "named = f\"r.status || '' = 'queued' AND {FREE}\"",
        "named = f\"r.status || '' IN ('queued', 'paused', 'failed') AND {FREE}\"",
        "An id that lies in a list for long is claimed whatever has become of its run.",
        (
            "tests/store/test_transitions.py::test_transition[claim_ids-paused]",
            "tests/store/test_transitions.py::test_transition[claim_ids-failed]",
        ),
    ),
    Mutant(
        "claim-on-its-snapshot",
        "store/sql/claims.py",
        "ORDER BY r.id {d.lock})",
        "ORDER BY r.id)",
        "A run that another worker has claimed since we looked is claimed again.",
        (f"{STORE}test_a_run_that_another_claims_first_is_left_to_it[id]",),
        POSTGRES,
    ),
    Mutant(
        "best-claimed-on-their-snapshot",
        "store/dialects/postgresql.py",
        '{self.lock if locks else ""}',
        '{""}',
        "What is claimed for being the first of its line is taken from whoever was faster.",
        (f"{STORE}test_a_run_that_another_claims_first_is_left_to_it",),
        POSTGRES,
    ),
    Mutant(
        "claim-that-waits",
        "store/sql/claims.py",
        "ORDER BY r.id {d.lock})",
        "ORDER BY r.id {d.wait_lock})",
        "Where a web transaction is open that holds one run, the claims of all others wait for it.",
        (f"{MET}test_a_claim_passes_by_a_run_that_an_operator_is_stopping",),
        POSTGRES,
        dies_waiting=True,
    ),
    Mutant(
        "events-under-one-key",
        "migrations/0001_initial.py",
        'fields=("run", "idempotency_key"),',
        'fields=("run", "idempotency_key", "id"),',
        "No index keeps an event that is sent again from being stored again.",
        ("tests/client/test_sending.py::test_the_same_key_gives_the_same_event",),
    ),
    Mutant(
        "runs-under-one-key",
        "migrations/0001_initial.py",
        'fields=("workflow", "key_hash"), name="durable_idempotency_once"',
        'fields=("workflow", "key_hash", "id"), name="durable_idempotency_once"',
        "No index keeps a second run from being started under the same idempotency key.",
        ("tests/store/test_constraints.py::test_what_must_be_unique_is",),
    ),
    Mutant(
        "key-that-never-stands",
        "store/sql/keys.py",
        'return _take_over(d, f"expires_at <= {d.now}")',
        'return _take_over(d, "1 = 1")',
        "An idempotency key is taken over before it has expired: the same order is started twice.",
        ("tests/store/test_keys.py::test_the_same_key_finds_the_same_run",),
    ),
    Mutant(
        "limit-counted-before-its-lock",
        "store/sql/limits.py",
        'g.maximum - ({_leased("g.key")}) AS free,',
        "g.maximum AS free,",
        "Who has waited for a limit's row claims by what was there before.",
        ("tests/store/test_postgres_limits.py::test_who_gets_the_lock_after_another_claimed_counts_anew",),
        POSTGRES,
    ),
    Mutant(
        "limit-not-locked",
        "store/sql/limits.py",
        'ORDER BY l.key {d.lock}"',
        'ORDER BY l.key"',
        "Two workers count under one limit at once, and both find room.",
        ("tests/store/test_postgres_limits.py::test_of_a_key_that_another_holds_nothing_is_claimed_and_nobody_waits",),
        POSTGRES,
    ),
    Mutant(
        "no-refill",
        "worker/loops/refill.py",
        "self._queue.length(name) < LOW_WATER:",
        "self._queue.length(name) < 0:",
        "Ids that Redis has lost come back to no list.",
        ("tests/worker/test_loops.py::test_refill_puts_lost_ids_back_when_the_list_runs_low",),
    ),
]

SCHEDULES = [
    Mutant(
        "fires-at-one-instant",
        "migrations/0001_initial.py",
        'fields=("schedule", "scheduled_for"), name="durable_fire_once"',
        'fields=("schedule", "scheduled_for", "id"), name="durable_fire_once"',
        "No index keeps an instant of a schedule from firing again.",
        ("tests/store/test_constraints.py::test_what_must_be_unique_is",),
    ),
    Mutant(
        "fired-twice",
        "store/sql/schedules.py",
        "ON CONFLICT (schedule_id, scheduled_for) DO NOTHING RETURNING scheduled_for",
        "ON CONFLICT (schedule_id, scheduled_for) DO UPDATE SET run_id = excluded.run_id RETURNING scheduled_for",
        "An instant that has fired fires again.",
        ("tests/schedules/test_firing.py::test_the_same_instant_never_fires_twice_whatever_is_done_to_the_row",),
    ),
    Mutant(
        "planned-from-now",
        "store/scheduling.py",
        "next_fire(*rule, instants[-1] if instants else now), missed)",
        "next_fire(*rule, now), missed)",
        "The next instant is computed from the time of the tick: what was to be made up for is left out.",
        ("tests/schedules/test_firing.py::test_all_starts_each_missed_run_in_bounded_portions",),
    ),
]

RETENTION = [
    Mutant(
        "deleted-without-another-look",
        "store/sql/pruning.py",
        """WHERE {_is_old(d, "i.seconds")} ORDER BY""",
        "WHERE 1 = 1 ORDER BY",
        "A run is deleted that was resumed after the look at its tree.",
        ("tests/commands/test_pruning.py::test_a_run_that_is_resumed_meanwhile_stays",),
    ),
    Mutant(
        "deleted-on-its-snapshot",
        "store/sql/pruning.py",
        "ORDER BY r.id {d.lock_deleted}",
        "ORDER BY r.id",
        "A run is deleted that was resumed between the second look's snapshot and the deletion.",
        (f"{STORE}test_a_run_that_is_resumed_between_snapshot_and_lock_is_not_pruned",),
        POSTGRES,
    ),
    Mutant(
        "model-that-is-not-kept",
        "store/sql/pruning.py",
        'ORDER BY id {d.lock_kept}"',
        'ORDER BY id"',
        "A run is deleted while another is started like it, and the audit names what is gone.",
        (f"{MET}test_a_run_is_not_pruned_while_another_is_started_like_it",),
        POSTGRES,
    ),
    Mutant(
        "live-trees-chosen",
        "store/pruning.py",
        "return [tree for tree in trees if all(member.is_old for member in tree)]",
        "return trees",
        "Trees with a member that is alive are chosen to be deleted, and those behind them are passed by.",
        ("tests/commands/test_pruning_live_trees.py",),
    ),
]
