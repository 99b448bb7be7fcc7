"""The tasks: https://docs.djangoproject.com/en/stable/topics/tasks/ through its backport for Django 5.2."""

from datetime import UTC, datetime

from django_tasks import task
from notes import begin_nap, end_nap


@task()
def step() -> None:
    pass


@task()
def nap(until: float) -> None:
    """There is no sleep: a task enqueues another one for later."""
    begin_nap(until)
    after_nap.using(run_after=datetime.fromtimestamp(until, UTC)).enqueue(until)


@task()
def after_nap(until: float) -> None:
    end_nap(until)
