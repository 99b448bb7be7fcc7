"""Which claim about which variant of a model holds, and which must not, and by what it fails."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Variant:
    """A model with these definitions, and one of its `ltl` claims; ``holds``: what has to come out.

    ``why``: where it must not hold, how SPIN begins to say what is wrong.
    """

    model: str
    name: str
    claim: str
    holds: bool
    defined: str = ""
    why: str = ""

    def __str__(self) -> str:
        return f"{self.model}-{self.name}-{self.claim}"


ALONE = "CRASHES=0 SWEEP=0"
"""The pure protocol: nobody dies, and no sweep mends anything."""

NEVER = "acceptance cycle"
"""An endless run in which what is claimed to happen never does."""
BROKEN = "assertion violated !( !("
"""A state that is claimed never to come: SPIN asserts the claim's negation of a negation."""
# Assertions of the model itself, as SPIN writes them; 1 is CANCELLED, and 2 SUCCEEDED.
NOT_OVER = "assertion violated ((status==2)||(status==1))"
"""A canceller is told that the run is over, and it is not."""
OVER_CANCEL = "assertion violated !(cancel_requested)"
"""A run succeeds that was asked to stop."""
NOT_FREE = "assertion violated ( !(own[(3-w)])&& !(((status==2)||(status==1))))"
"""A run is claimed that another worker has, or that is over."""
SPINNING = "assertion violated ((spins<=1)||0)"
"""A run goes on at once, again and again, with nothing that it could use."""


def lease(name: str, claim: str, holds: bool, defined: str = "", why: str = "") -> Variant:
    return Variant("lease", name, claim, holds, defined, why)


def wake(name: str, claim: str, holds: bool, defined: str, why: str = "") -> Variant:
    return Variant("wake", name, claim, holds, defined, why)


def limits(name: str, claim: str, holds: bool, defined: str = "", why: str = "") -> Variant:
    return Variant("limits", name, claim, holds, defined, why)


VARIANTS = [
    # The fence: a name is not enough, since a restarted process may have the one of before.
    lease("by_id", "fenced", False, "FENCE=0", BROKEN),
    lease("by_worker_name", "fenced", False, "FENCE=1", BROKEN),
    lease("by_token", "fenced", True),
    lease("by_token", "one_outcome", True),
    lease("by_token", "one_row", True),
    lease("by_token", "ends", True),
    # A suspension that does not look for a cancellation: the run is woken, and never ended.
    wake("no_cancel_look_alone", "woken", True, ALONE),
    wake("no_cancel_look", "woken", True, "SWEEP=1"),
    wake("no_cancel_look", "safe", True, "SWEEP=1"),
    wake("no_cancel_look", "ends", False, "SWEEP=1", NEVER),
    wake("no_cancel_look_alone", "ends", False, ALONE, NEVER),
    # The protocol.
    wake("protocol", "woken", True, "LOOKC=1"),
    wake("protocol", "ends", True, "LOOKC=1"),
    wake("protocol", "safe", True, "LOOKC=1"),
    wake("protocol_alone", "woken", True, f"{ALONE} LOOKC=1"),
    wake("protocol_alone", "ends", True, f"{ALONE} LOOKC=1"),
    wake("only_sweep_cancel", "ends", True, "SWEEP=3"),
    # Shorter forms of it.
    wake("no_sweep_crash", "woken", False, "LOOKC=1 SWEEP=0", NEVER),
    wake("sweep_events_only", "woken", False, "LOOKC=1 SWEEP=2", NEVER),
    wake("one_statement_conditional_wake", "woken", False, f"{ALONE} SUSPEND=1 WAKE=1", NEVER),
    wake("one_statement_locking_wake", "woken", False, f"{ALONE} SUSPEND=1", NEVER),
    wake("two_statements_conditional_wake", "woken", False, f"{ALONE} WAKE=1", NEVER),
    wake("wake_with_the_event_conditional", "woken", False, f"{ALONE} WAKE=2", NEVER),
    wake("wake_with_the_event_locking", "woken", True, f"{ALONE} WAKE=3"),
    wake("wake_in_one_statement", "woken", False, f"{ALONE} WAKE=4", NEVER),
    wake("wake_skips_locked", "woken", False, f"{ALONE} WAKE=5", NEVER),
    wake("child_looks_before_its_commit", "woken", False, f"{ALONE} CHILD=1", NEVER),
    wake("cancel_in_two_updates", "safe", False, "LOOKC=1 CANCEL=1", NOT_OVER),
    wake("complete_unguarded", "safe", False, "LOOKC=1 GUARD=0", OVER_CANCEL),
    wake("claim_without_recheck", "safe", False, "LOOKC=1 RECHECK=0", NOT_FREE),
    wake("claim_reads_the_journal", "ends", False, "LOOKC=1 CLAIMREADS=1", NEVER),
    wake("look_takes_any_child", "safe", False, f"{ALONE} LOOKC=1 LOOKALL=0", SPINNING),
    wake("race_wakes_for_all", "woken", False, "LOOKC=1 ANY=1", NEVER),
    wake("race", "woken", True, "LOOKC=1 ANY=2"),
    wake("race_alone", "woken", True, f"{ALONE} LOOKC=1 ANY=2"),
    # Limits.
    limits("protocol", "at_most_one", True),
    limits("protocol", "all_end", True),
    limits("sweep_any_oldest", "at_most_one", True, "SKIPFULL=0 AGE=0"),
    limits("sweep_any_oldest", "all_end", True, "SKIPFULL=0 AGE=0"),
    limits("one_statement", "at_most_one", False, "CLAIM=1", BROKEN),
    limits("plain_claim", "at_most_one", False, "CLAIM=0", BROKEN),
    limits("no_limit_row", "at_most_one", False, "ROW=0", BROKEN),
    limits("no_reap", "all_end", False, "REAP=0", NEVER),
    limits("no_sweep_any_losses", "all_end", False, "SWEEP=0", NEVER),
    limits("counter", "all_end", False, "COUNTER=1", NEVER),
    limits("no_sweep_three_losses", "all_end", True, "SWEEP=0 LOSSES=3"),
    limits("admitted_takes_room", "all_end", False, "ADMITTED=1 SWEEP=0 LOSSES=1", NEVER),
    limits("endless_by_creation", "all_end", False, "ENDLESS=1 AGE=0", NEVER),
    limits("endless_by_queueing", "all_end", True, "ENDLESS=1"),
    limits("sweep_head_of_line", "all_end", False, "ENDLESS=2 FREE=1 SKIPFULL=0", NEVER),
    limits("sweep_only_startable", "all_end", True, "ENDLESS=2 FREE=1"),
]
