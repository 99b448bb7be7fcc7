"""`make test-browser` is promised in three minutes: a whole run that takes much longer fails."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest

from tests.browser import __main__ as runner

GOAL, MOST = 180, 480


@pytest.mark.parametrize(
    ("passed", "seconds", "status", "told"),
    [
        (0, 150, 0, "150 s of 180"),
        (0, GOAL, 0, "180 s of 180"),
        (0, 200, 0, "200 s, 20 more than the 180"),
        (0, MOST, 0, "480 s, 300 more than the 180"),
        (0, 481, 1, "481 s: it is to take 180, and fails from 480 on"),
        (1, 150, 1, "150 s of 180"),
        (2, 481, 2, "481 s: "),
    ],
)
def test_a_whole_run_is_held_to_its_time(passed: int, seconds: int, status: int, told: str) -> None:
    found, text = runner.judge(passed, seconds, is_whole=True)
    assert found == status
    assert f": {told}" in text


@pytest.mark.parametrize("passed", [0, 1])
def test_a_part_is_not(passed: int) -> None:
    assert runner.judge(passed, 1_000, is_whole=False) == (passed, "make test-browser: 1000 s")


@pytest.mark.parametrize(("arguments", "status"), [([], 1), (["-k", "shop"], 0)])
def test_the_exit_status_is_what_was_judged(
    arguments: list[str], status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([0.0, MOST + 1.0])
    monkeypatch.setenv("DURABLE_TEST_BROWSER", "of before")
    monkeypatch.setattr(runner, "find", lambda: "/usr/bin/chromium")
    monkeypatch.setattr(runner, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(runner, "run_parts", lambda parts, given, side_by_side: (0, Counter(passed=3)))
    assert runner.main(arguments) == status
    assert "3 passed, 0 failed, make test-browser: 481 s" in capsys.readouterr().out
