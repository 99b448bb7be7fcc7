from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from ..core.names import PATH_MAX
from .run import Run


class LogLine(models.Model):
    """A line that a run's code said through ``ctx.log``: ``level`` is logging's number, ``scope`` the path of the
    branch, turn or block in which it was said.

    Or the engine says it: this ``attempt`` of the step at ``scope`` (empty: of the run) took ``seconds``, failed, and
    was not its last.

    ``number`` counts up in the run; where lines were left out, or are too old to be kept, it has gaps.
    """

    # The newest lines of a run are the end of this index.
    pk = models.CompositePrimaryKey("run_id", "number")
    # No constraint: lines are written under the run's lock, and retention removes them with the run.
    run = models.ForeignKey(Run, models.CASCADE, db_constraint=False, db_index=False, related_name="log")
    number = models.IntegerField()
    at = models.DateTimeField()
    level = models.SmallIntegerField()
    scope = models.CharField(max_length=PATH_MAX, blank=True, default="")
    message = models.TextField()
    # Where in the code it was said, as a number: a line that is said or sent again is known by this.
    place = models.BigIntegerField()
    attempt = models.SmallIntegerField(null=True)
    seconds = models.FloatField(null=True)

    class Meta:
        verbose_name = _("log line")
        verbose_name_plural = _("log lines")

    def __str__(self) -> str:
        return f"line {self.number} of {self.run_id}"
