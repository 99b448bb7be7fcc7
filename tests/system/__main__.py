"""Runs the tests of this folder, on PostgreSQL with Redis and on SQLite: `python -m tests.system [pytest's arguments]`.

Where something is missing that they need it fails, and says what to install.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from tests.servers import Guarded
from tests.system.needs import missing

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
WANTED = "DURABLE_TEST_SYSTEM"
BACKENDS = ("postgres-redis", "sqlite")


def main(arguments: list[str]) -> int:
    if needs := missing():
        print("make test-system: this machine lacks what the tests need.", file=sys.stderr)
        for need in needs:
            print(f"  {need.name}: {need.otherwise}", file=sys.stderr)
        return 1
    began = time.monotonic()
    statuses = [run(backend, arguments) for backend in BACKENDS]
    print(f"make test-system: {time.monotonic() - began:.0f} s")
    nothing = int(pytest.ExitCode.NO_TESTS_COLLECTED)
    # What was asked for in particular may be on one of the two only.
    return max(0 if status == nothing and min(statuses) == 0 else status for status in statuses)


def run(backend: str, arguments: list[str]) -> int:
    print(f"== {backend}", flush=True)
    command = [sys.executable, "-m", "pytest", "-q", str(FOLDER), *arguments]
    environment = {**os.environ, "DURABLE_TEST_BACKEND": backend, WANTED: "1"}
    # Servers of their own, whatever the environment knows of: they are filled, starved and restarted.
    for name in ("DURABLE_TEST_DATABASE_URL", "DURABLE_TEST_REDIS_URL"):
        environment.pop(name, None)
    return Guarded(command, env=environment, cwd=ROOT).wait(None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
