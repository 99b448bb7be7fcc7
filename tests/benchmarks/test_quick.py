"""What `benchmarks/quick.py` prints, of which database and queue, and that its figures stand on rows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import quick

ROOT = Path(__file__).resolve().parents[2]
KEYS = ["steps_per_s_sync", "steps_per_s_async", "runs_per_s_drain", "enqueue_per_s", "latency_ms_p50"]
SOUND = {"steps_per_s_sync": 3001, "steps_per_s_async": 6001, "runs_per_s_drain": 1501, "enqueue_per_s": 1501,
         "latency_ms_p50": 14.994}  # fmt: skip


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, float]]:
    """What the measures will say; nothing is started."""
    told = dict(SOUND)
    monkeypatch.setattr(quick, "set_up", lambda stack, options: None)
    monkeypatch.setattr(quick, "MEASURES", {name: lambda size, name=name: told[name] for name in quick.MEASURES})
    yield told


def run(monkeypatch: pytest.MonkeyPatch, *options: str) -> int:
    monkeypatch.setattr(sys, "argv", ["quick.py", *options])
    return quick.main()


def test_json_is_the_last_line_with_five_keys(
    figures: dict[str, float], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--json") == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert list(last) == KEYS
    assert last == {name: round(value, 2) for name, value in SOUND.items()}


@pytest.mark.parametrize("name", KEYS)
def test_a_floor_that_is_missed_is_the_exit_status(
    name: str, figures: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    figures[name] += 2 if name.startswith("latency") else -2
    assert run(monkeypatch) == 1
    # The floors are of PostgreSQL with Redis.
    assert run(monkeypatch, "--queue", "database") == 0


@pytest.mark.parametrize(
    ("options", "measured"),
    [
        (["--database", "sqlite", "--queue", "database", "--only", "steps_per_s_async"], "sqlite, database queue"),
        (["--queue", "database", "--only", "enqueue_per_s"], "postgresql, database queue"),
    ],
    ids=["sqlite", "postgresql"],
)
def test_it_measures_what_it_was_told(options: list[str], measured: str) -> None:
    """Worker processes on SQLite, rows on PostgreSQL without Redis; each counted afterwards."""
    command = [sys.executable, "benchmarks/quick.py", "--json", "--size", "0.02", "--repetitions", "0", *options]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("DURABLE_", "DJANGO_"))}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    first, *_, last = done.stdout.splitlines()
    assert first.startswith(measured)
    assert "async 200" in first
    [(name, value)] = json.loads(last).items()
    assert name == options[-1]
    assert value > 0


@pytest.mark.django_db
def test_an_enqueue_that_made_no_row_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    class Idle:
        def enqueue(self, **_: object) -> None:
            pass

    # The real ones would be registered in this process.
    monkeypatch.setitem(sys.modules, "benchmarks.project.workflows", SimpleNamespace(steps=Idle()))
    with pytest.raises(AssertionError, match="counted"):
        quick.enqueue(0.01)
