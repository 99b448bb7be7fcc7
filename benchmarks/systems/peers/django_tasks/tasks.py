"""The task: https://docs.djangoproject.com/en/stable/topics/tasks/ through its backport for Django 5.2."""

from django_tasks import task


@task()
def step() -> None:
    pass
