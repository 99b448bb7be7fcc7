from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from ..core.journal.states import PayloadKind
from .run import Run


class Payload(models.Model):
    """Text that belongs to a run, as its kind says; values are encoded by the codec.

    One row a kind: an outcome is an insert and no copy.
    """

    pk = models.CompositePrimaryKey("run_id", "kind")
    # No constraint: rows are written under the run's lock, and retention removes them with the run.
    run = models.ForeignKey(Run, models.CASCADE, db_constraint=False, db_index=False, related_name="payloads")
    kind = models.CharField(max_length=8, choices=[(k.value, k.value) for k in PayloadKind])
    data = models.TextField()

    class Meta:
        verbose_name = _("payload")
        verbose_name_plural = _("payloads")
        indexes = [
            # As good as empty: the sweep looks for what a dead process left.
            models.Index(fields=["run"], name="durable_payload_unwanted", condition=Q(kind=PayloadKind.UNWANTED.value)),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.run_id}"
