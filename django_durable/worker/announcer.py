"""Where the receivers of Django's signals run, and where runs are logged."""

from __future__ import annotations

from django.db import close_old_connections, connections

from .background import Background, Task


class Announcer(Background):
    """Receivers may be slow and use the ORM: hence a thread of their own, with Django's connections."""

    def __init__(self) -> None:
        super().__init__("durable-announcer")

    def _perform(self, task: Task) -> None:
        # As Django does between requests: a receiver must not meet a connection that a restart has broken.
        close_old_connections()
        try:
            super()._perform(task)
        finally:
            close_old_connections()

    def _finish(self) -> None:
        connections.close_all()
