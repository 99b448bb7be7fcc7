from __future__ import annotations

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from .run import Run


class Audit(models.Model):
    """Who asked what of a run, when and why: the verbs of operators and of code outside the run."""

    run = models.ForeignKey(Run, models.CASCADE, db_constraint=False, related_name="audit")
    verb = models.CharField(max_length=20)
    actor = models.CharField(max_length=150, blank=True, default="")
    reason = models.TextField(blank=True, default="")
    status_before = models.CharField(max_length=10)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        verbose_name = _("audit entry")
        verbose_name_plural = _("audit entries")

    def __str__(self) -> str:
        return f"{self.verb} {self.run_id}"
