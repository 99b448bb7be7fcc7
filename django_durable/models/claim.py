from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class ClaimRecord(models.Model):
    """Which worker claimed a run, and when: of its latest claims those that were not its first, which stands in the
    run's own row; a row for the first as well once its lease was taken away.

    A run may sleep and go on for ever, so that ``place`` goes round: what is claimed anew writes over what is oldest.
    """

    pk = models.CompositePrimaryKey("run_id", "place")
    # No foreign key: only its own worker and who takes its lease away write a row, and retention removes them all.
    run_id = models.UUIDField()
    place = models.SmallIntegerField()
    number = models.IntegerField()
    worker_id = models.UUIDField()
    claimed_at = models.DateTimeField()
    # When the reaper or a supervisor took its lease away.
    lost_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name = _("claim")
        verbose_name_plural = _("claims")

    def __str__(self) -> str:
        return f"claim {self.number} of {self.run_id}"
