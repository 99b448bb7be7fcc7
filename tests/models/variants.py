"""Which claim about which variant of a model holds, and which must not."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Variant:
    """A model with these definitions, and one of its `ltl` claims; ``holds``: what has to come out."""

    model: str
    name: str
    claim: str
    holds: bool
    defined: str = ""

    def __str__(self) -> str:
        return f"{self.model}-{self.name}-{self.claim}"


ALONE = "CRASHES=0 SWEEP=0"
"""The pure protocol: nobody dies, and no sweep mends anything."""


def lease(name: str, claim: str, holds: bool, defined: str = "") -> Variant:
    return Variant("lease", name, claim, holds, defined)


def wake(name: str, claim: str, holds: bool, defined: str) -> Variant:
    return Variant("wake", name, claim, holds, defined)


def limits(name: str, claim: str, holds: bool, defined: str = "") -> Variant:
    return Variant("limits", name, claim, holds, defined)


VARIANTS = [
    # The fence: a name is not enough, since a restarted process may have the one of before.
    lease("by_id", "fenced", False, "FENCE=0"),
    lease("by_worker_name", "fenced", False, "FENCE=1"),
    lease("by_token", "fenced", True),
    lease("by_token", "one_outcome", True),
    lease("by_token", "one_row", True),
    lease("by_token", "ends", True),
    # A suspension that does not look for a cancellation: the run is woken, and never ended.
    wake("no_cancel_look_alone", "woken", True, ALONE),
    wake("no_cancel_look", "woken", True, "SWEEP=1"),
    wake("no_cancel_look", "safe", True, "SWEEP=1"),
    wake("no_cancel_look", "ends", False, "SWEEP=1"),
    wake("no_cancel_look_alone", "ends", False, ALONE),
    # The protocol.
    wake("protocol", "woken", True, "LOOKC=1"),
    wake("protocol", "ends", True, "LOOKC=1"),
    wake("protocol", "safe", True, "LOOKC=1"),
    wake("protocol_alone", "woken", True, f"{ALONE} LOOKC=1"),
    wake("protocol_alone", "ends", True, f"{ALONE} LOOKC=1"),
    wake("only_sweep_cancel", "ends", True, "SWEEP=3"),
    # Shorter forms of it.
    wake("no_sweep_crash", "woken", False, "LOOKC=1 SWEEP=0"),
    wake("sweep_events_only", "woken", False, "LOOKC=1 SWEEP=2"),
    wake("one_statement_conditional_wake", "woken", False, f"{ALONE} SUSPEND=1 WAKE=1"),
    wake("one_statement_locking_wake", "woken", False, f"{ALONE} SUSPEND=1"),
    wake("two_statements_conditional_wake", "woken", False, f"{ALONE} WAKE=1"),
    wake("wake_with_the_event_conditional", "woken", False, f"{ALONE} WAKE=2"),
    wake("wake_with_the_event_locking", "woken", True, f"{ALONE} WAKE=3"),
    wake("wake_in_one_statement", "woken", False, f"{ALONE} WAKE=4"),
    wake("wake_skips_locked", "woken", False, f"{ALONE} WAKE=5"),
    wake("child_looks_before_its_commit", "woken", False, f"{ALONE} CHILD=1"),
    wake("cancel_in_two_updates", "safe", False, "LOOKC=1 CANCEL=1"),
    wake("complete_unguarded", "safe", False, "LOOKC=1 GUARD=0"),
    wake("claim_without_recheck", "safe", False, "LOOKC=1 RECHECK=0"),
    wake("claim_reads_the_journal", "ends", False, "LOOKC=1 CLAIMREADS=1"),
    wake("look_takes_any_child", "safe", False, f"{ALONE} LOOKC=1 LOOKALL=0"),
    wake("race_wakes_for_all", "woken", False, "LOOKC=1 ANY=1"),
    wake("race", "woken", True, "LOOKC=1 ANY=2"),
    wake("race_alone", "woken", True, f"{ALONE} LOOKC=1 ANY=2"),
    # Limits.
    limits("protocol", "at_most_one", True),
    limits("protocol", "all_end", True),
    limits("sweep_any_oldest", "at_most_one", True, "SKIPFULL=0 AGE=0"),
    limits("sweep_any_oldest", "all_end", True, "SKIPFULL=0 AGE=0"),
    limits("one_statement", "at_most_one", False, "CLAIM=1"),
    limits("plain_claim", "at_most_one", False, "CLAIM=0"),
    limits("no_limit_row", "at_most_one", False, "ROW=0"),
    limits("no_reap", "all_end", False, "REAP=0"),
    limits("no_sweep_any_losses", "all_end", False, "SWEEP=0"),
    limits("counter", "all_end", False, "COUNTER=1"),
    limits("no_sweep_three_losses", "all_end", True, "SWEEP=0 LOSSES=3"),
    limits("admitted_takes_room", "all_end", False, "ADMITTED=1 SWEEP=0 LOSSES=1"),
    limits("endless_by_creation", "all_end", False, "ENDLESS=1 AGE=0"),
    limits("endless_by_queueing", "all_end", True, "ENDLESS=1"),
    limits("sweep_head_of_line", "all_end", False, "ENDLESS=2 FREE=1 SKIPFULL=0"),
    limits("sweep_only_startable", "all_end", True, "ENDLESS=2 FREE=1"),
]
