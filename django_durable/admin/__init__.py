"""The admin: runs seen, understood and steered; schedules and workers. A file per page, permissions on every verb."""

from django.contrib import admin

from ..models import Run, Schedule, Worker
from .menu import WorkflowEntry, WorkflowsEntry
from .object_runs import RunsInline
from .runs import RunAdmin
from .schedules import ScheduleAdmin
from .workers import WorkerAdmin

__all__ = ["RunAdmin", "RunsInline", "ScheduleAdmin", "WorkerAdmin"]

admin.site.register(Run, RunAdmin)
admin.site.register(Schedule, ScheduleAdmin)
admin.site.register(Worker, WorkerAdmin)
admin.site.register(WorkflowEntry, WorkflowsEntry)
