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

from tests.browser.looks import FAILED, ROW, WORKFLOWS


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
    fill_row()


def fill_row() -> None:
    """A row of the project's, with runs of its own: one is on its way, one has a long name, one a name without end."""
    from django_durable import tag_for
    from django_durable.core.payloads.codec import encode
    from django_durable.models import Payload, Tag
    from tests.admin.world import make_entry, make_run
    from tests.app.models import Counter
    from tests.browser.rooms import LONG, UNBROKEN

    tag = tag_for(Counter.objects.create(name=ROW))
    for status, workflow in (("running", "app.doubling"), ("waiting", LONG), ("failed", UNBROKEN)):
        run = make_run(status, workflow=workflow)
        Tag.objects.create(run=run, name=tag)
        make_entry(run, f"{workflow} at last")
        Payload.objects.create(run=run, kind="progress", data=encode({"done": 3, "total": 10, "message": "packing"}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
