from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from ..core.journal.states import EntryStatus, Kind
from ..core.names import PATH_MAX
from .run import Run


class JournalEntry(models.Model):
    """One entry of a run's journal, found by its path. ``token`` is the lease under which it was written."""

    pk = models.CompositePrimaryKey("run_id", "path")
    # No constraint: entries are written under the run's lock, and retention removes them with the run.
    run = models.ForeignKey(Run, models.CASCADE, db_constraint=False, db_index=False, related_name="journal")
    path = models.CharField(max_length=PATH_MAX)
    seq = models.IntegerField()
    kind = models.CharField(max_length=6, choices=[(k.value, k.value) for k in Kind])
    status = models.CharField(max_length=9, choices=[(s.value, s.value) for s in EntryStatus])
    attempts = models.SmallIntegerField(default=0)
    value = models.TextField(null=True)
    error = models.TextField(null=True)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    wake_at = models.DateTimeField(null=True)
    # One name to a line: names hold no line ends.
    awaits = models.TextField(blank=True, default="")
    undo = models.BooleanField(default=False, db_default=False)
    token = models.UUIDField()

    class Meta:
        verbose_name = _("journal entry")
        verbose_name_plural = _("journal entries")
        indexes = [
            # What runs wait for: the look at suspension, the wake and the sweep ask only for these.
            models.Index(
                fields=["kind", "run"], name="durable_journal_waits", condition=Q(status=EntryStatus.WAITING.value)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.path} of {self.run_id}"
