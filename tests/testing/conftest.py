from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.testing.flows import calls


@pytest.fixture(params=["db", "transactional_db"])
def any_db(request: pytest.FixtureRequest) -> None:
    """Inside a transaction, as in a TestCase, and outside of one, as in a TransactionTestCase."""
    request.getfixturevalue(request.param)


@pytest.fixture(autouse=True)
def _no_calls() -> Iterator[None]:
    calls.clear()
    yield
    calls.clear()
