"""A project that has no admin: its checks pass, and its workers work."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def manage(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.chaos.settings",
        "DURABLE_TEST_BACKEND": "sqlite",
        "DURABLE_TEST_DATABASE_NAME": str(folder / "db.sqlite3"),
    }
    command = [sys.executable, str(ROOT / "tests" / "manage.py"), *arguments]
    return subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=60)


def test_every_check_passes(tmp_path: Path) -> None:
    """They import the template tags of every app."""
    done = manage(tmp_path, "check", "--fail-level", "WARNING")
    assert done.returncode == 0, done.stderr


def test_runs_are_worked_on(tmp_path: Path) -> None:
    for arguments in (
        ("migrate", "--verbosity", "0"),
        ("durable_enqueue", "app.doubling", "--input", '{"number": 21}'),
        ("durable_worker", "--burst"),
    ):
        done = manage(tmp_path, *arguments)
        assert done.returncode == 0, (arguments, done.stderr)
    listed = manage(tmp_path, "durable_runs", "--json")
    assert '"succeeded"' in listed.stdout, listed.stdout
