from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from ..core.names import NAME_MAX


class Schedule(models.Model):
    """When a workflow starts by itself. Rows from code belong to the code of ``app_label``, the others to the operator.

    ``next_fire_at`` is NULL for a row that is to be planned (anew), and where ``problem`` says why it cannot be.
    """

    OVERLAP_CHOICES = [
        ("skip", _("skip")),
        ("allow", _("allow")),
        ("queue", _("queue")),
        ("cancel_previous", _("cancel the previous run")),
    ]
    CATCH_UP_CHOICES = [("latest", _("the latest")), ("none", _("none")), ("all", _("all"))]

    workflow = models.CharField(max_length=NAME_MAX)
    name = models.CharField(max_length=NAME_MAX)
    app_label = models.CharField(max_length=100, blank=True, default="")
    expression = models.CharField(max_length=200)
    timezone = models.CharField(max_length=64, default="UTC")
    input = models.TextField(null=True, blank=True)
    overlap = models.CharField(max_length=16, choices=OVERLAP_CHOICES, default="skip")
    catch_up = models.CharField(max_length=8, choices=CATCH_UP_CHOICES, default="latest")
    jitter = models.FloatField(default=0)
    enabled = models.BooleanField(default=True)
    next_fire_at = models.DateTimeField(null=True, blank=True)
    last_scheduled_for = models.DateTimeField(null=True, blank=True)
    problem = models.TextField(blank=True, default="")
    # What the code said last: `enabled` is the operator's switch, so only a change in the code may turn it.
    enabled_in_code = models.BooleanField(default=True, editable=False)
    declared_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        verbose_name = _("schedule")
        verbose_name_plural = _("schedules")
        permissions = [("fire_schedule", _("Can fire schedules"))]
        constraints = [models.UniqueConstraint(fields=["workflow", "name"], name="durable_schedule_once")]
        indexes = [models.Index(fields=["next_fire_at"], name="durable_schedule_due", condition=Q(enabled=True))]

    def __str__(self) -> str:
        return f"{self.workflow}: {self.name}"


class Fire(models.Model):
    """One due instant of a schedule: at most one row, so at most one run. Without a run ``outcome`` says why.

    ``is_open``: the run may be live, now or after a resume. Few rows are, so looking for live runs stays cheap
    however many fires and runs there are.
    """

    schedule = models.ForeignKey(Schedule, models.CASCADE, related_name="fires")
    scheduled_for = models.DateTimeField()
    fired_at = models.DateTimeField()
    run_id = models.UUIDField(null=True)
    outcome = models.CharField(max_length=16)
    is_open = models.BooleanField(default=False)

    class Meta:
        verbose_name = _("fire")
        verbose_name_plural = _("fires")
        constraints = [
            models.UniqueConstraint(fields=["schedule", "scheduled_for"], name="durable_fire_once"),
            models.CheckConstraint(name="durable_fire_open", condition=Q(is_open=False) | Q(run_id__isnull=False)),
        ]
        indexes = [
            models.Index(fields=["schedule"], name="durable_fire_live", condition=Q(is_open=True)),
            models.Index(fields=["run_id"], name="durable_fire_run", condition=Q(run_id__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"{self.schedule_id} at {self.scheduled_for:%Y-%m-%d %H:%M:%S}"
