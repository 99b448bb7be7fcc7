"""Faults of what starts runs, and of what keeps them: enqueueing, claims, keys, limits, schedules, lists, retention."""

from __future__ import annotations

from .mutant import POSTGRES, Mutant

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
        "live-trees-chosen",
        "store/pruning.py",
        "return [tree for tree in trees if all(member.is_old for member in tree)]",
        "return trees",
        "Trees with a member that is alive are chosen to be deleted, and those behind them are passed by.",
        ("tests/commands/test_pruning_live_trees.py",),
    ),
]
