from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from ..core.limits import START_KEY_MAX


class Limit(models.Model):
    """A key of limited runs: its row is the lock under which they are counted and claimed.

    It holds no count: what is leased is counted, and what has started, so that no crash can leak a slot. Made at the
    first claim, pruned when it has been idle for a day. Where a start depends on other runs of the key (``debounce``,
    ``singleton``), a second row is the lock for that (``make_start_key``), ``admitted_at`` the last such start.
    """

    key = models.CharField(max_length=START_KEY_MAX)
    admitted_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name = _("limit")
        verbose_name_plural = _("limits")
        # Not unique=True, which would index it a second time, for LIKE.
        constraints = [models.UniqueConstraint(fields=["key"], name="durable_limit_once")]

    def __str__(self) -> str:
        return self.key
