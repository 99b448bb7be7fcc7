from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.testing.flows import calls


@pytest.fixture(
    params=[
        pytest.param("TestCase", marks=pytest.mark.django_db),
        pytest.param("TransactionTestCase", marks=pytest.mark.django_db(transaction=True)),
    ]
)
def any_db() -> None:
    """Inside a transaction, as in a TestCase, and outside of one, as in a TransactionTestCase."""


@pytest.fixture(autouse=True)
def _no_calls() -> Iterator[None]:
    calls.clear()
    yield
    calls.clear()
