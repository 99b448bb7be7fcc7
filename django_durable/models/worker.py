from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class Worker(models.Model):
    """A worker process, from its start on. The id is fresh for each process and never used again."""

    id = models.UUIDField(primary_key=True, editable=False)
    host = models.CharField(max_length=255)
    pid = models.IntegerField()
    queues = models.JSONField(default=list)
    workflows = models.JSONField(default=list)
    concurrency = models.IntegerField()
    is_isolated = models.BooleanField(default=False)
    """It takes nothing but suspects, and there is one only where a worker has found some: alone it serves no queue."""
    version = models.CharField(max_length=64, blank=True, default="")
    started_at = models.DateTimeField()
    heartbeat_at = models.DateTimeField()
    stopped_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name = _("worker")
        verbose_name_plural = _("workers")

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}"
