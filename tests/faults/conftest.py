"""No part of the suite: `python -m tests.faults` runs the tests of this folder before it enumerates."""

from __future__ import annotations

import os

from django.conf import settings

# It stands in the place of that of `tests/conftest.py`, and says the same of what is for one backend.
OTHERS = "test_postgres_*.py" if settings.BACKEND == "sqlite" else "test_sqlite_*.py"
collect_ignore_glob = [OTHERS] if "DURABLE_TEST_FAULTS" in os.environ else ["*"]
