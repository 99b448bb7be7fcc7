from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from ..core.names import NAME_MAX


class IdempotencyKey(models.Model):
    """Which run an idempotency key of a workflow started, with a hash of its input; free again after ``expires_at``.

    Until then retention keeps the run as well.
    """

    workflow = models.CharField(max_length=NAME_MAX)
    key_hash = models.CharField(max_length=64)
    key = models.CharField(max_length=200)
    run_id = models.UUIDField()
    input_hash = models.CharField(max_length=64)
    expires_at = models.DateTimeField()

    class Meta:
        verbose_name = _("idempotency key")
        verbose_name_plural = _("idempotency keys")
        constraints = [models.UniqueConstraint(fields=["workflow", "key_hash"], name="durable_idempotency_once")]
        indexes = [
            models.Index(fields=["expires_at"], name="durable_idempotency_expiry"),
            models.Index(fields=["run_id"], name="durable_idempotency_run"),
        ]

    def __str__(self) -> str:
        return f"{self.key} of {self.workflow}"
