"""The admin in other looks, each a real process: Django has its templates for good."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.processes import wait_until
from tests.servers import Guarded

ROOT = Path(__file__).resolve().parents[2]
THEMES = ("unfold", "jazzmin")
WORKFLOWS = ("app.by_day", "app.by_night")
FAILED = 51
"""Runs of each of these that have failed: one more than the list has on a page."""
ROW = "order 4711"
"""A row of the project's own that has runs."""


@dataclass(frozen=True)
class Look:
    url: str
    cookie: dict[str, Any]
    """A superuser's."""


@contextmanager
def starting(theme: str, folder: Path) -> Iterator[Callable[[], Look]]:
    """The seeded site in that look, ``unfold`` or ``jazzmin``, while it starts; what is yielded waits
    until it is there."""
    ready, log = folder / "site.json", folder / "site.log"
    command = [sys.executable, "-m", "tests.browser.look_site", str(ready)]
    with Guarded(command, log=log, env=_environment(theme, folder), cwd=ROOT) as process:

        def look() -> Look:
            wait_until(lambda: ready.exists() or not process.running, message=f"the site in {theme}")
            assert process.running, log.read_text(errors="replace")
            cookie = json.loads(ready.read_text())
            return Look(cookie["url"], cookie)

        yield look


def _environment(theme: str, folder: Path) -> dict[str, str]:
    database = {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(folder / "db.sqlite3"),
        # As tests/settings.py has it: several threads write.
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 30,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF",
        },
    }
    mine = {"DJANGO_SETTINGS_MODULE": "tests.browser.look_settings", "BENCH_THEME": theme}
    return {**os.environ, **mine, "BENCH_DATABASE": json.dumps(database)}
