from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from ..core.names import NAME_MAX


class Hold(models.Model):
    """A queue or a workflow of which no run is claimed, until somebody releases it: then the row is gone.

    Workers read all of them with each heartbeat: there are few. A workflow is held under the name that it has now, and
    with it those that it had.
    """

    QUEUE, WORKFLOW = "queue", "workflow"
    KINDS: ClassVar = [(QUEUE, _("queue")), (WORKFLOW, _("workflow"))]

    kind = models.CharField(max_length=8, choices=KINDS)
    name = models.CharField(max_length=NAME_MAX)
    since = models.DateTimeField(db_default=Now())
    actor = models.CharField(max_length=150, blank=True, default="")
    reason = models.TextField(blank=True, default="")

    class Meta:
        verbose_name = _("hold")
        verbose_name_plural = _("holds")
        permissions = [("hold_queue", _("Can hold and release queues and workflows"))]
        constraints = [models.UniqueConstraint(fields=["kind", "name"], name="durable_hold_once")]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"
