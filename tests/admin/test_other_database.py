"""The admin of a project whose ``DURABLE["DATABASE"]`` is not its default one: users, sessions and Django's history in
one database, runs and schedules in the other, and no query in the wrong one.

In a process of its own: the databases of a Django project are settled when it begins.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OF_THIS_RUN = {"DURABLE_TEST_DATABASE_NAME", "DURABLE_TEST_SETTINGS", "DJANGO_SETTINGS_MODULE"}


def test_every_page_and_every_verb_beside_a_database_for_the_engine_alone(backend: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in OF_THIS_RUN}
    environment["DURABLE_TEST_BACKEND"] = "sqlite" if backend == "sqlite" else "postgres-database"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--ds=tests.admin.two_databases",
         "tests/admin/fixture_other_database.py"],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"\b(\d+) passed", done.stdout)
    assert passed and int(passed[1]) > 30, done.stdout
