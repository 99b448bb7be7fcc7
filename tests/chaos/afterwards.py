"""What is asked once everything is healed and every run over, while the workers are still there."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from pathlib import Path

from django.core.management import call_command
from django.core.management.base import CommandError

ASKED = ("I21", "L6")
"""Of `durable_check`, what needs Redis and sessions. The rest is asked when nobody is there any more."""

DEADLOCK = "deadlock detected"


def violated() -> Iterator[str]:
    """What `durable_check` finds in Redis and among the sessions, or could not tell."""
    out = StringIO()
    try:
        call_command("durable_check", only=list(ASKED), stdout=out)
    except CommandError as error:
        yield f"durable_check: {error}"
        yield from (text for text in out.getvalue().splitlines() if not text.startswith("ok "))


class ServerLog:
    """What PostgreSQL logs from now on."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._read = log.stat().st_size

    def deadlocks(self) -> Iterator[str]:
        """Whoever was picked to give way tries again, so that nothing else would show them."""
        with self._log.open("rb") as log:
            log.seek(self._read)
            text = log.read().decode(errors="replace")
        for line in text.splitlines():
            if DEADLOCK in line:
                yield f"PostgreSQL: {line}"
