from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from ..core.names import NAME_MAX
from .run import Run


class Tag(models.Model):
    """A string that a run is found by."""

    pk = models.CompositePrimaryKey("run_id", "name")
    run = models.ForeignKey(Run, models.CASCADE, db_constraint=False, db_index=False, related_name="tags")
    name = models.CharField(max_length=NAME_MAX)

    class Meta:
        verbose_name = _("tag")
        verbose_name_plural = _("tags")
        indexes = [models.Index(fields=["name", "run"], name="durable_tag_name")]

    def __str__(self) -> str:
        return self.name
