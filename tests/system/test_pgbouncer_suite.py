"""A part of the suite as it stands, with its PostgreSQL behind PgBouncer in transaction mode."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from subprocess import TimeoutExpired

import pytest

from tests.run import ROOT, read_counts
from tests.servers import Folder, Guarded, PostgresServer
from tests.system.pgbouncer import PgBouncer

PARTS: dict[str, tuple[int, tuple[str, ...]]] = {
    "runs of every kind": (
        8,
        (
            "tests/acceptance/test_work.py",
            "tests/acceptance/test_fan_out.py",
            "tests/acceptance/test_branches.py",
        ),
    ),
    "transactions of every kind": (
        90,
        ("tests/executor/test_atomic.py", "tests/executor/test_branches.py", "tests/schedules/test_firing.py"),
    ),
    "events": (6, ("tests/acceptance/test_events.py",)),
    "limits and pauses": (6, ("tests/acceptance/test_limits.py", "tests/acceptance/test_pause.py")),
    "deaths": (5, ("tests/acceptance/test_sigkill.py", "tests/acceptance/test_poison.py")),
}
"""How many tests there are at least, in which files. Real workers with runs of every kind; atomic steps, whose
transactions are the code's; branches, each with a session of its own; schedules, whose rows are locked. Events, limits
and pauses, of which processes have to hear from one another. Workers that are killed with a session that they have
borrowed."""
SIZE = 20
SECONDS = 80.0
"""For a part: with the start of its servers and their end, less than the time for which pytest lets a test hang."""


@pytest.mark.parametrize("part", PARTS)
def test_what_holds_on_a_session_of_ones_own_holds_on_one_that_is_lent(tmp_path: Path, part: str) -> None:
    many, files = PARTS[part]
    report, log = tmp_path / "report.xml", tmp_path / "log"
    with Folder() as folder, PostgresServer(folder) as server, PgBouncer(folder, server, size=SIZE) as bouncer:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("DURABLE_TEST_")}
        environment = {
            **kept,
            "DJANGO_SETTINGS_MODULE": "tests.system.settings",
            "DURABLE_TEST_BACKEND": "postgres-redis",
            "DURABLE_TEST_DATABASE_URL": bouncer.url("postgres"),
            "DURABLE_TEST_BEHIND_PGBOUNCER": "1",
        }
        # The database goes with its server: to drop it, the pooler would have to let go of its sessions.
        command = [sys.executable, "-m", "pytest", "-q", "--reuse-db", f"--junitxml={report}", *files]
        process = Guarded(command, env=environment, cwd=ROOT, log=log)
        try:
            status = process.wait(SECONDS)
        except TimeoutExpired:
            pytest.fail(f"after {SECONDS:g} s:\n{log.read_text(errors='replace')[-4000:]}")
        finally:
            process.kill()
    counts = read_counts(report)
    assert (status, counts["failed"], counts["skipped"]) == (0, 0, 0), log.read_text(errors="replace")[-4000:]
    assert counts["passed"] >= many
