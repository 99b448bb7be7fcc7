"""The process of tests/browser/looks.py: a site on a database of its own, with rows of every kind.

python -m tests.browser.look_site FILE_THAT_SAYS_WHERE_IT_IS
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from threading import Event

import django
from django.core.management import call_command

from tests.browser.looks import FAILED, WORKFLOWS


def main(ready: Path) -> None:
    django.setup()
    call_command("migrate", verbosity=0)
    fill()
    from benchmarks.screens import logged_in, served

    with served() as url:
        written = ready.with_suffix(".new")
        written.write_text(json.dumps(logged_in() | {"url": url}))
        written.rename(ready)
        Event().wait()


def fill() -> None:
    from tests.admin.world import make_run
    from tests.browser.rooms import furnish

    furnish()
    for workflow in WORKFLOWS:
        for _ in range(FAILED):
            make_run("failed", workflow=workflow)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
