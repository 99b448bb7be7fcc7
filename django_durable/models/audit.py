from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from ..core.names import NAME_MAX
from .run import Run


class Audit(models.Model):
    """Who asked what of a run, a schedule, a workflow or a queue, when and why: the verbs of operators and of code
    outside the run.

    A schedule is called by its workflow and its name, so that what was done to it outlives its row: one that goes with
    a deploy may come back with the next.
    """

    run = models.ForeignKey(Run, models.CASCADE, null=True, db_constraint=False, related_name="audit")
    workflow = models.CharField(max_length=NAME_MAX, null=True)
    schedule = models.CharField(max_length=NAME_MAX, null=True)
    queue = models.CharField(max_length=NAME_MAX, null=True)
    verb = models.CharField(max_length=20)
    actor = models.CharField(max_length=150, blank=True, default="")
    reason = models.TextField(blank=True, default="")
    status_before = models.CharField(max_length=10)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        verbose_name = _("audit entry")
        verbose_name_plural = _("audit entries")
        constraints = [
            models.CheckConstraint(
                name="durable_audit_of_one",
                condition=Q(run__isnull=False, workflow=None, schedule=None, queue=None)
                | Q(run=None, workflow__isnull=False, queue=None)
                | Q(run=None, workflow=None, schedule=None, queue__isnull=False),
            ),
        ]
        indexes = [models.Index(fields=["workflow", "schedule"], name="durable_audit_schedule", condition=Q(run=None))]

    def __str__(self) -> str:
        what = self.run_id or self.queue or (f"{self.workflow}: {self.schedule}" if self.schedule else self.workflow)
        return f"{self.verb} {what}"
