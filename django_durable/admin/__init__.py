"""The admin: runs seen, understood and steered; schedules and workers. A file per page, permissions on every verb."""

from django.contrib import admin

from ..models import Run, Schedule, Worker
from .menu import WorkflowEntry, WorkflowsEntry
from .object_runs import RunsInline
from .runs import RunAdmin
from .schedules import ScheduleAdmin
from .workers import WorkerAdmin

__all__ = ["RunAdmin", "RunsInline", "ScheduleAdmin", "WorkerAdmin", "register"]


def register(site: admin.AdminSite) -> None:
    """All entries of this app in a site that the project has made beside Django's own, in which they are anyway.

    Raises ``AlreadyRegistered`` (of Django) where the site has one of them.
    """
    site.register(Run, RunAdmin)
    site.register(Schedule, ScheduleAdmin)
    site.register(Worker, WorkerAdmin)
    site.register(WorkflowEntry, WorkflowsEntry)


register(admin.site)
