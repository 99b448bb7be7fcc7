"""`benchmarks/fanout.py`: that it counts what it measured, and that its ratio is its exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import fanout, quick

ROOT = Path(__file__).resolve().parents[2]


def test_a_small_one() -> None:
    """How fast is not the question here: others work on this machine."""
    options = ["--json", "--queue", "database", "--repetitions", "1", "--few", "5", "--many", "20", "--dearer", "100"]
    command = [sys.executable, "benchmarks/fanout.py", *options]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("DURABLE_", "DJANGO_"))}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    few, many, ratio, last = done.stdout.splitlines()
    assert few.startswith("     5 children ") and many.startswith("    20 children ")
    assert ratio.endswith("for one of 20; at most 100.0")
    told = json.loads(last)
    assert list(told) == ["few_ms", "many_ms", "ratio", "last_s"]
    assert told["ratio"] == told["many_ms"] / told["few_ms"] > 0


@pytest.mark.parametrize(("each_ms", "status"), [(1.2, 0), (1.21, 1)])
def test_a_child_that_costs_more_is_the_exit_status(
    monkeypatch: pytest.MonkeyPatch, each_ms: float, status: int
) -> None:
    asked: list[int] = []

    def measure(count: int) -> fanout.Measured:
        asked.append(count)
        return fanout.Measured(1.0 if count == 1_000 else each_ms, 0.1)

    monkeypatch.setattr(quick, "set_up", lambda stack, options: None)
    monkeypatch.setattr(fanout, "measure", measure)
    monkeypatch.setattr(sys, "argv", ["fanout.py"])
    assert fanout.main() == status
    assert asked == [1_000] + [1_000, 10_000] * 3
