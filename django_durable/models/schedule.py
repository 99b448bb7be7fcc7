from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _


class Schedule(models.Model):
    """When a workflow starts by itself. Rows from code belong to the code of ``app_label``, the others to the operator."""

    workflow = models.CharField(max_length=200)
    name = models.CharField(max_length=200)
    app_label = models.CharField(max_length=100, blank=True, default="")
    expression = models.CharField(max_length=200)
    timezone = models.CharField(max_length=64, default="UTC")
    input = models.TextField(null=True)
    overlap = models.CharField(max_length=16, default="skip")
    catch_up = models.CharField(max_length=8, default="latest")
    jitter = models.FloatField(default=0)
    enabled = models.BooleanField(default=True)
    next_fire_at = models.DateTimeField(null=True)
    last_scheduled_for = models.DateTimeField(null=True)
    problem = models.TextField(blank=True, default="")

    class Meta:
        verbose_name = _("schedule")
        verbose_name_plural = _("schedules")
        permissions = [("fire_schedule", _("Can fire schedules"))]
        constraints = [models.UniqueConstraint(fields=["workflow", "name"], name="durable_schedule_once")]
        indexes = [models.Index(fields=["next_fire_at"], name="durable_schedule_due", condition=Q(enabled=True))]

    def __str__(self) -> str:
        return f"{self.workflow}: {self.name}"


class Fire(models.Model):
    """One due instant of a schedule: at most one row, so at most one run, for each. No run: skipped, ``outcome`` says why."""

    schedule = models.ForeignKey(Schedule, models.CASCADE, related_name="fires")
    scheduled_for = models.DateTimeField()
    fired_at = models.DateTimeField()
    run_id = models.UUIDField(null=True)
    outcome = models.CharField(max_length=16)

    class Meta:
        verbose_name = _("fire")
        verbose_name_plural = _("fires")
        constraints = [models.UniqueConstraint(fields=["schedule", "scheduled_for"], name="durable_fire_once")]

    def __str__(self) -> str:
        return f"{self.schedule_id} at {self.scheduled_for:%Y-%m-%d %H:%M:%S}"
