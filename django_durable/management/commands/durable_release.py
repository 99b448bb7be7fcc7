"""``manage.py durable_release``: lets runs of a queue or a workflow be claimed again."""

from __future__ import annotations

from typing import ClassVar

from ...client.holding import release_queue, release_workflow
from ._holds import HoldCommand


class Command(HoldCommand):
    help = "Releases queues or workflows that durable_hold held: workers look for their runs at their next heartbeat."
    verbs: ClassVar = {"queue": release_queue, "workflow": release_workflow}
    done = "released"
    was_so = "was not held"
