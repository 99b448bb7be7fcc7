"""``manage.py durable_hold``: lets no run of a queue or a workflow be claimed."""

from __future__ import annotations

from typing import ClassVar

from ...client.holding import hold_queue, hold_workflow
from ._holds import HoldCommand


class Command(HoldCommand):
    help = (
        "Holds queues or workflows until durable_release: workers claim none of theirs from the next heartbeat on. "
        "Runs that are being worked on go on to their next suspension; starts, events and schedules go on as ever."
    )
    verbs: ClassVar = {"queue": hold_queue, "workflow": hold_workflow}
    done = "held"
    was_so = "is held already"
