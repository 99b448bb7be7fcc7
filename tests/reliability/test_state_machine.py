"""The store against a model of it, in orders that nobody thought of.

More of them, and what fails made small: `DURABLE_TEST_EXAMPLES=500 pytest -o faulthandler_timeout=0` with this file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from django.db import IntegrityError
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from django_durable.store import committing
from django_durable.store.dialects import DIALECTS, Dialect
from django_durable.store.sql import commits, leases
from tests.reliability.machine import StoreMachine
from tests.reliability.unfenced import without_fence

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract, pytest.mark.queueless]

EXAMPLES = 16
"""So many find each wrong store below, and the right one gets the very same: of fewer nobody has seen that they see."""
ALIKE = settings(
    max_examples=EXAMPLES,
    # The same ones each time, so that a failure is a change's.
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    stateful_step_count=40,
    print_blob=True,
    report_multiple_bugs=False,
    # To make what fails small takes minutes: whoever looks into it asks for more examples, and gets that too.
    phases=[Phase.generate],
)
MORE = "DURABLE_TEST_EXAMPLES"


def wanted() -> settings:
    """What ``DURABLE_TEST_EXAMPLES`` asks for are new ones each time, and one that fails tells how to have it again."""
    if MORE not in os.environ:
        return ALIKE
    return settings(ALIKE, max_examples=int(os.environ[MORE]), derandomize=False, phases=list(Phase))


def test_the_store_does_what_its_model_does() -> None:
    run_state_machine_as_test(StoreMachine, settings=wanted())


# --- a store that does otherwise is found out ------------------------------------------------


@contextmanager
def changed(name: str, old: str, new: str, *modules: object) -> Iterator[None]:
    """Within it a statement has another text, wherever it was imported."""
    original = getattr(modules[0], name)
    assert all(old in original(d) for d in DIALECTS.values()), f"{name} does not say that any more"

    def other(d: Dialect, **options: bool) -> str:
        return str(original(d, **options)).replace(old, new)

    for module in modules:
        setattr(module, name, other)
    committing._at_once.cache_clear()
    try:
        yield
    finally:
        for module in modules:
            setattr(module, name, original)
        committing._at_once.cache_clear()


WRONG: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "writes without a lease": without_fence,
    "an outcome goes before a cancellation": lambda: changed(
        "leave", "r.cancel_requested_at IS NOT NULL AND o.status", "(1 = 0) AND o.status", commits
    ),
    "a lease is taken away before it lapses": lambda: changed(
        "reap", "AND r.lease_expires_at <=", "AND r.lease_expires_at IS NOT NULL OR r.lease_expires_at <=", leases
    ),
    "a release counts as a crash": lambda: changed("leave", "suspect = r.suspect AND", "suspect = (1 = 1) OR", commits),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_the_model_finds_out_a_store_that_does_otherwise(wrong: str) -> None:
    with WRONG[wrong](), pytest.raises((AssertionError, IntegrityError)):
        run_state_machine_as_test(StoreMachine, settings=ALIKE)
