"""What makes the journals still can: `tests.fixtures.make` is called once a release, and must not rot till then."""

from __future__ import annotations

import pytest

from tests.fixtures.journals import played


@pytest.mark.django_db
def test_the_scenes_can_be_played_and_leave_the_same_rows_each_time() -> None:
    once = played()
    assert len(once) == 20
    assert once == played()
