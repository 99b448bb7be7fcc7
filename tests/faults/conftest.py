"""No part of the suite: `python -m tests.faults` runs the tests of this folder before it enumerates."""

from __future__ import annotations

import os

collect_ignore_glob = [] if "DURABLE_TEST_FAULTS" in os.environ else ["*"]
