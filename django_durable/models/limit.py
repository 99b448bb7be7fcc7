from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from ..core.limits import LIMIT_KEY_MAX


class Limit(models.Model):
    """A key of ``max_concurrency``: its row is the lock under which runs of the key are counted and claimed.

    It holds no count: what is leased is counted, so that no crash can leak a slot. Made at the first claim, pruned when
    it has been idle for a day.
    """

    key = models.CharField(max_length=LIMIT_KEY_MAX)
    admitted_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name = _("limit")
        verbose_name_plural = _("limits")
        # Not unique=True, which would index it a second time, for LIKE.
        constraints = [models.UniqueConstraint(fields=["key"], name="durable_limit_once")]

    def __str__(self) -> str:
        return self.key
