"""What `benchmarks/loops.py` prints is what decides its exit status: growth, rows and memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import loops

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("growth", "status"), [("10", 0), ("0", 1)])
def test_a_small_one(growth: str, status: int) -> None:
    """How fast is not the question here: others work on this machine. The rows and the bytes are the real ones."""
    command = [sys.executable, "-m", "benchmarks.loops", "--turns", "500", "--growth", growth]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("DURABLE_", "DJANGO_"))}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=110, check=False)
    assert (done.returncode, done.stderr) == (status, ""), done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[1].startswith("turn 500 / turn 100: ")
    assert lines[5].startswith("journal rows of turns: 41; at most 41 ")
    assert lines[6].startswith("memory from turn 100 on: ")


SOUND = {"early": 1.0, "late": 1.2, "replay": 1.2, "rows": 41, "more": 65_536}


@pytest.mark.parametrize("worse", [{}, {"late": 1.21}, {"replay": 1.21}, {"rows": 42}, {"more": 65_537}], ids=str)
def test_a_figure_past_its_bound_is_the_exit_status(monkeypatch: pytest.MonkeyPatch, worse: dict[str, float]) -> None:
    told = SimpleNamespace(**{**SOUND, **worse})
    monkeypatch.setattr(loops, "measure", lambda turns, others=0: told)
    monkeypatch.setattr(loops, "remembered", lambda turns: told.more)
    assert loops.main([]) == bool(worse)


def test_a_turn_beside_others_may_not_cost_more_either(monkeypatch: pytest.MonkeyPatch) -> None:
    alone, beside = SimpleNamespace(**SOUND), SimpleNamespace(**{**SOUND, "early": 2.0, "late": 2.0})
    monkeypatch.setattr(loops, "measure", lambda turns, others=0: beside if others else alone)
    monkeypatch.setattr(loops, "remembered", lambda turns: 0)
    assert loops.main([]) == 1
