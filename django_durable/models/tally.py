from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from ..core.names import NAME_MAX, QUEUE_MAX


class Tally(models.Model):
    """What workers did in a minute: so many runs of a workflow, in a queue, were first claimed and ended.

    Beside the rows of runs there are those that say more of them, each for ten minutes: how many ended after so long
    (``name`` is a bucket of ``core.histogram``) and how many failed in this step (``name``; empty: in any other). Rows
    are only ever added to, by one statement for many of them; no column of an update is in an index.
    """

    RUNS, SECONDS, STEP = "runs", "seconds", "step"
    KINDS: ClassVar = [(kind, kind) for kind in (RUNS, SECONDS, STEP)]
    DETAIL_MINUTES: ClassVar = 10
    """What says more has several names for each workflow: by the minute it would be most of the table."""

    # The kind first: what is drawn minute by minute reads nothing else. 508 characters, for MariaDB at most 768.
    pk = models.CompositePrimaryKey("kind", "minute", "workflow", "queue", "name")
    kind = models.CharField(max_length=8, choices=KINDS)
    minute = models.DateTimeField()
    workflow = models.CharField(max_length=NAME_MAX)
    queue = models.CharField(max_length=QUEUE_MAX)
    name = models.CharField(max_length=NAME_MAX, blank=True, default="")
    started = models.IntegerField(default=0)
    succeeded = models.IntegerField(default=0)
    failed = models.IntegerField(default=0)
    cancelled = models.IntegerField(default=0)

    class Meta:
        verbose_name = _("tally")
        verbose_name_plural = _("tallies")

    def __str__(self) -> str:
        return f"{self.kind} {self.workflow} {self.minute:%Y-%m-%d %H:%M}"
