"""The example project's own tests, run as its users would: with its `manage.py`."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.example.conftest import PROJECT


@pytest.mark.parametrize(
    "command",
    [["test", "--no-input"], ["check", "--fail-level", "WARNING"], ["makemigrations", "--check", "--dry-run"]],
    ids=lambda command: command[0],
)
def test_manage(command: list[str], example_environment: Callable[..., dict[str, str]]) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "manage.py", *command],
        cwd=PROJECT,
        env=example_environment(),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    if command[0] == "test":
        assert (ran := re.search(r"Ran (\d+) tests", done.stderr)) and int(ran[1]) > 50, "tests were not found"
        assert "skipped" not in done.stderr
