"""Runs, workers and a clock in dicts beside the real store: both are told the same, and have to come to the same.

The model knows what docs/state-machine.md says and nothing of SQL. A worker is an object that keeps every lease it ever
got, so that stale ones are as frequent as they like; the clock moves by ticks that are shorter than a lease and longer
than an example takes.
"""

from __future__ import annotations

from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from django_durable.core import clock
from django_durable.models import Run
from tests.invariants import violated
from tests.reliability.maintaining import Maintenance
from tests.reliability.outside import Outside
from tests.reliability.scene import Scene
from tests.reliability.working import Workers

ACTS = (
    *("enqueue", "enqueue_later", "send_event", "send_event_and_die", "cancel", "cancel", "pause", "resume", "resume"),
    *("claim", "claim_best", "claim_best", "claim_best", "claim_alone", "renew", "journal", "journal", "journal"),
    *("take_event", "wait_for_event", "sleep", "complete", "fail", "heed_the_cancellation", "release"),
    *("let_time_pass", "reap", "reap", "promote", "lapse", "bury", "tell_of_life"),
)
"""What may happen, as often as it should. Of rules Hypothesis leaves out some for whole examples: in most of them no
run would get anywhere."""

LOOKS_EVERY = 5
"""Steps between two looks at the invariants."""


class StoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.scene = Scene()
        self.steps = 0
        self.outside, self.workers = Outside(self.scene), Workers(self.scene)
        self.parts = (self.outside, self.workers, Maintenance(self.scene))

    def teardown(self) -> None:
        clock.set_offset(timedelta(0))

    @initialize()
    def begin(self) -> None:
        """Most of what may go wrong begins with a run that somebody works on."""
        self.outside.start(is_later=False)
        self.workers.claim()

    @rule(act=st.sampled_from(ACTS), number=st.integers(0, 9), is_current=st.sampled_from([True, True, True, False]))
    def happens(self, act: str, number: int, is_current: bool) -> None:
        """``number`` chooses a run, a worker or a lease, ``is_current`` whether rather one of those that stand."""
        self.scene.number, self.scene.wants_current = number, is_current
        [part] = [part for part in self.parts if hasattr(part, act)]
        getattr(part, act)()

    @invariant()
    def the_rows_say_what_the_model_says(self) -> None:
        columns = ("pk", "status", "lease_token", "claims", "crashes", "suspect")
        rows = {row[0]: row[1:] for row in Run.objects.values_list(*columns)}
        assert rows == {
            run.id: (run.status, run.token, run.claims, run.crashes, run.is_suspect)
            for run in self.scene.model.values()
        }

    @invariant()
    def nothing_impossible_is_stored(self) -> None:
        self.steps += 1
        # It takes longer than all the rest; what is impossible stays so for a while.
        assert self.steps % LOOKS_EVERY or violated() == []
