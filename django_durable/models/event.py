from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from ..core.names import NAME_MAX, PATH_MAX
from .run import Run


class Event(models.Model):
    """What the outside sent to a run. ``consumed_by`` is the path of the wait that took it, ``response`` what the run
    answered."""

    run = models.ForeignKey(Run, models.CASCADE, db_constraint=False, db_index=False, related_name="events")
    name = models.CharField(max_length=NAME_MAX)
    payload = models.TextField()
    idempotency_key = models.CharField(max_length=200, blank=True, default="")
    sent_at = models.DateTimeField(db_default=Now())
    consumed_at = models.DateTimeField(null=True)
    consumed_by = models.CharField(max_length=PATH_MAX, blank=True, default="")
    response = models.TextField(null=True)
    answered_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name = _("event")
        verbose_name_plural = _("events")
        constraints = [
            models.UniqueConstraint(
                fields=["run", "idempotency_key"], name="durable_event_once", condition=~Q(idempotency_key="")
            ),
        ]
        indexes = [
            models.Index(fields=["run", "id"], name="durable_event_run"),
            models.Index(fields=["run", "name"], name="durable_event_open", condition=Q(consumed_at__isnull=True)),
        ]

    def __str__(self) -> str:
        return f"{self.name} to {self.run_id}"
