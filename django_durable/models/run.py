from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from ..core.ids import uuid7
from ..core.journal.states import LIVE, TERMINAL, BlockReason, Phase, Status
from ..core.limits import LIMIT_KEY_MAX
from ..core.names import NAME_MAX, PATH_MAX, QUEUE_MAX

STATUS_LABELS = {
    Status.SCHEDULED: _("scheduled"),
    Status.QUEUED: _("queued"),
    Status.RUNNING: _("running"),
    Status.WAITING: _("waiting"),
    Status.PAUSED: _("paused"),
    Status.BLOCKED: _("blocked"),
    Status.SUCCEEDED: _("succeeded"),
    Status.FAILED: _("failed"),
    Status.CANCELLED: _("cancelled"),
}

# Plain strings, because migrations write down what they are given.
ALIVE = sorted(status.value for status in LIVE)
OVER = sorted(status.value for status in TERMINAL)


# Of the two indexes on queued runs each covers a part.
IS_QUEUED = Q(status=Status.QUEUED.value, limit_key__isnull=True) | Q(
    status=Status.QUEUED.value, limit_key__isnull=False
)


# Nothing is left of it but what its code does at its end.
IS_ENDING = Q(cancel_requested_at__isnull=False) | Q(phase__in=[Phase.COMPENSATING.value, Phase.ON_FAILURE.value])


# What somebody else has to wake.
IS_AWAITED = (
    Q(waiting_on__startswith="event:")
    | Q(waiting_on__startswith="child:")
    | Q(waiting_on__startswith="join:")
    | Q(waiting_on__startswith="map:")
    | Q(waiting_on__startswith="race:")
)


REPLACED = ""
"""The ``parent_path`` of a child in whose place its resumed parent starts another."""
IS_REPLACED = Q(parent__isnull=False, parent_path=REPLACED)


class RunQuerySet(models.QuerySet["Run"]):
    def live(self) -> RunQuerySet:
        """Runs that are not over."""
        return self.filter(status__in=ALIVE)

    def finished(self) -> RunQuerySet:
        """Runs that are over: succeeded, failed or cancelled."""
        return self.filter(status__in=OVER)

    def for_workflow(self, workflow: object) -> RunQuerySet:
        """Runs of a workflow, given as the workflow (under each name that it has or had) or by one name."""
        names = [getattr(workflow, "name", workflow), *getattr(workflow, "aliases", ())]
        return self.filter(workflow__in=names)

    def tagged(self, *names: str) -> RunQuerySet:
        """Runs that carry every one of these tags."""
        found = self
        for name in names:
            found = found.filter(tags__name=name)
        return found


class Run(models.Model):
    """One execution of a workflow: narrow and hot. Its input, output and errors are rows of ``Payload``.

    Only ``store`` writes ``status``. The lease's columns stand in no index, so that renewing it is cheap.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workflow = models.CharField(_("workflow"), max_length=NAME_MAX)
    queue = models.CharField(_("queue"), max_length=QUEUE_MAX)
    priority = models.SmallIntegerField(_("priority"), default=0)
    status = models.CharField(
        _("status"), max_length=10, choices=[(s.value, label) for s, label in STATUS_LABELS.items()]
    )
    phase = models.CharField(
        _("phase"), max_length=12, default=Phase.FORWARD.value, choices=[(p.value, p.value) for p in Phase]
    )
    attempt = models.SmallIntegerField(_("attempt"), default=1)
    max_attempts = models.SmallIntegerField(null=True)
    claims = models.IntegerField(_("claims"), default=0)
    crashes = models.SmallIntegerField(_("crashes"), default=0)
    suspect = models.BooleanField(default=False)
    block_reason = models.CharField(
        max_length=20, blank=True, default="", choices=[(r.value, r.value) for r in BlockReason]
    )
    fingerprint = models.CharField(max_length=64, blank=True, default="")
    waiting_on = models.CharField(_("waiting on"), max_length=PATH_MAX + 20, blank=True, default="")

    created_at = models.DateTimeField(_("created"), db_default=Now())
    queued_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(_("started"), null=True)
    # The worker of the first claim: most runs have no other. Those that come after are rows of ``ClaimRecord``.
    started_by = models.UUIDField(null=True)
    finished_at = models.DateTimeField(_("finished"), null=True)
    wake_at = models.DateTimeField(_("wakes"), null=True)
    deadline_at = models.DateTimeField(_("deadline"), null=True)
    # Seconds, as asked for: the deadline may be the parent's, and counts from a start that is not kept.
    timeout = models.FloatField(null=True)
    cancel_requested_at = models.DateTimeField(null=True)
    # While it runs: what it meets at its next call. A run that is over or queued has passed it by.
    pause_requested_at = models.DateTimeField(null=True)

    lease_token = models.UUIDField(null=True)
    leased_by = models.UUIDField(null=True)
    lease_expires_at = models.DateTimeField(null=True)

    # No constraint: children outlive a parent that retention has removed, and each insert would lock the parent.
    parent = models.ForeignKey(
        "self", models.DO_NOTHING, null=True, db_constraint=False, db_index=False, related_name="children"
    )
    parent_path = models.CharField(max_length=PATH_MAX, blank=True, default="")
    root_id = models.UUIDField()
    # No constraint either: what a fork began with is in its own journal.
    forked_from = models.UUIDField(null=True)
    detached = models.BooleanField(default=False)
    # With which others it is counted: see ``Limit``. Null: it has no limit.
    limit_key = models.CharField(_("limit"), max_length=LIMIT_KEY_MAX, null=True)

    objects: ClassVar[models.Manager[Run]] = RunQuerySet.as_manager()

    class Meta:
        verbose_name = _("run")
        verbose_name_plural = _("runs")
        permissions = [
            ("cancel_run", _("Can cancel runs")),
            ("pause_run", _("Can pause runs")),
            ("resume_run", _("Can resume runs")),
            ("rerun_run", _("Can start runs anew")),
            ("start_run", _("Can start runs by hand")),
            ("send_event", _("Can send events to runs")),
        ]
        constraints = [
            # The one constraint: PostgreSQL parses every CHECK of a table anew for each statement that writes to it,
            # and six more took 60 of the 207 µs of a run's insert. `durable_check` looks at what they said.
            models.CheckConstraint(
                name="durable_run_lease",
                condition=Q(
                    status=Status.RUNNING.value,
                    lease_token__isnull=False,
                    leased_by__isnull=False,
                    lease_expires_at__isnull=False,
                )
                | (
                    ~Q(status=Status.RUNNING.value)
                    & Q(lease_token__isnull=True, leased_by__isnull=True, lease_expires_at__isnull=True)
                ),
            ),
        ]
        indexes = [
            # Partial on statuses that a run leaves again, but for three: failed runs stay in the one of those that
            # need attention, children in their parent's, and what has had a limit in the one that rates count by. Ten
            # million other runs that are over are in none.
            models.Index(
                "queue",
                F("priority").desc(),
                "queued_at",
                name="durable_run_ready",
                condition=Q(status=Status.QUEUED.value, limit_key__isnull=True),
            ),
            # A claim without limits never comes past those that have one, and they are found key by key.
            models.Index(
                "status",
                "limit_key",
                F("priority").desc(),
                "queued_at",
                name="durable_run_limited",
                condition=Q(status__in=[Status.QUEUED.value, Status.RUNNING.value], limit_key__isnull=False),
            ),
            # Those that go on need not wait for the rate of their key: not behind a backlog of those that do.
            models.Index(
                "limit_key",
                F("priority").desc(),
                "queued_at",
                name="durable_run_limited_begun",
                condition=Q(status=Status.QUEUED.value, limit_key__isnull=False, started_at__isnull=False),
            ),
            # As good as empty: those that go before all others of their key.
            models.Index(
                fields=["limit_key"],
                name="durable_run_limited_ending",
                condition=Q(status=Status.QUEUED.value, limit_key__isnull=False) & IS_ENDING,
            ),
            # A rate counts starts, also of runs that are over by now. No column says which runs have one, since the
            # code that claims decides it: so runs with any other limit stay in here too.
            models.Index(
                fields=["limit_key", "started_at"],
                name="durable_run_limited_started",
                condition=Q(limit_key__isnull=False, started_at__isnull=False),
            ),
            # What a start meets: ``debounce`` the one that is scheduled, ``singleton`` whatever is live.
            models.Index(
                fields=["limit_key", "status"],
                name="durable_run_limited_live",
                condition=Q(status__in=ALIVE, limit_key__isnull=False),
            ),
            models.Index(
                fields=["wake_at"],
                name="durable_run_limited_due",
                condition=Q(
                    status__in=[Status.SCHEDULED.value, Status.WAITING.value],
                    wake_at__isnull=False,
                    limit_key__isnull=False,
                ),
            ),
            models.Index(
                fields=["queued_at"],
                name="durable_run_suspect",
                condition=Q(status=Status.QUEUED.value, suspect=True),
            ),
            # Queue and priority first, as above: a claim looks for the best of those that are due, not for the first.
            models.Index(
                "queue",
                F("priority").desc(),
                "wake_at",
                name="durable_run_due",
                condition=Q(status__in=[Status.SCHEDULED.value, Status.WAITING.value], wake_at__isnull=False),
            ),
            models.Index(fields=["leased_by"], name="durable_run_leased", condition=Q(status=Status.RUNNING.value)),
            # Those that somebody else has to wake. The sweep looks whether that was forgotten.
            models.Index(
                fields=["id"],
                name="durable_run_awaiting",
                condition=Q(status=Status.WAITING.value) & IS_AWAITED,
            ),
            # As good as empty: whoever asked died before the run was queued to end. The sweep looks for such.
            models.Index(
                fields=["id"],
                name="durable_run_cancelling",
                condition=Q(status=Status.WAITING.value, cancel_requested_at__isnull=False),
            ),
            models.Index(
                fields=["status", "id"],
                name="durable_run_attention",
                condition=Q(status__in=[Status.PAUSED.value, Status.BLOCKED.value, Status.FAILED.value]),
            ),
            # At the end of each of a parent's thousands one asks whether another of the same map is alive: by bytes,
            # backwards from the last.
            models.Index(
                fields=["parent", "parent_path"],
                opclasses=["uuid_ops", "varchar_pattern_ops"],
                name="durable_run_live_child",
                condition=Q(parent__isnull=False, status__in=ALIVE),
            ),
            models.Index(
                fields=["parent", "parent_path"], name="durable_run_parent", condition=Q(parent__isnull=False)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.workflow} {self.id}"

    @property
    def is_replaced(self) -> bool:
        """Whether its parent, which was resumed, has another child in its place: it stays as it ended."""
        return self.parent_id is not None and self.parent_path == REPLACED
