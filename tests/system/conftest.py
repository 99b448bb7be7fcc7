from __future__ import annotations

import os
from pathlib import Path

from django.conf import settings

FILES = {path.name for path in Path(__file__).parent.glob("test_*.py")}
ON_SQLITE = {name for name in FILES if name.startswith("test_sqlite_")}
# `python -m tests.system` looks first whether the machine has what they need. Each is about one of the two backends.
WANTED = ON_SQLITE if settings.BACKEND == "sqlite" else FILES - ON_SQLITE
collect_ignore = sorted(FILES - WANTED) if "DURABLE_TEST_SYSTEM" in os.environ else sorted(FILES)
