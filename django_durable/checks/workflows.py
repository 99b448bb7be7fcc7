"""The workflows of the installed apps: their names and their schedules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from django.core.checks import CheckMessage, register

from ..core.cron import Cron
from ..exceptions import DuplicateWorkflow, InvalidInput, InvalidSchedule, PayloadError
from ..workflows import Workflow
from ..workflows.registry import workflows
from .messages import TAG, Messages, error

Known = dict[str, Workflow[Any, Any]]


@register(TAG)
def check_workflows(**_: Any) -> Messages:
    # One function, because only the first look at the registry tells of a duplicate.
    known, duplicates = _resolve()
    messages = [
        error(30, str(duplicate), "Names are how runs find their code after a deploy: each must be unique and stable.")
        for duplicate in duplicates
    ]
    for workflow in known.values():
        messages += _schedules(workflow)
    return messages


def _resolve() -> tuple[Known, list[DuplicateWorkflow]]:
    duplicates: list[DuplicateWorkflow] = []
    while True:
        try:
            return workflows(), duplicates
        except DuplicateWorkflow as duplicate:
            duplicates.append(duplicate)


def _schedules(workflow: Workflow[Any, Any]) -> Iterator[CheckMessage]:
    try:
        crons = workflow.options.crons
    except InvalidSchedule as problem:
        yield error(31, f"{workflow.name}: {problem}", f"Correct cron= of {workflow.where}.")
        return
    except TypeError:
        yield error(
            31,
            f"{workflow.name}: cron= is {workflow.options.cron!r}.",
            f"It takes a string, a Cron, or a list of them: correct it at {workflow.where}.",
        )
        return
    yield from _misfits(workflow, crons)
    yield from _same_names(workflow, crons)


def _misfits(workflow: Workflow[Any, Any], crons: list[Cron]) -> Iterator[CheckMessage]:
    for cron in crons:
        try:
            workflow.signature.write(workflow.name, (), dict(cron.input or {}))
        except (InvalidInput, PayloadError) as problem:
            yield error(
                32,
                f"The schedule {cron.name or cron.expression!r} of {workflow.name} starts runs that cannot begin: "
                f"{problem}",
                f"Give Cron(…, input={{…}}) what {workflow.where} takes, or its parameters defaults.",
            )


def _same_names(workflow: Workflow[Any, Any], crons: list[Cron]) -> Iterator[CheckMessage]:
    for name, count in Counter(cron.name or cron.expression for cron in crons).items():
        if count > 1:
            yield error(
                33,
                f"{workflow.name} has {count} schedules called {name!r}, and a schedule is found by its name.",
                "Give each Cron(…) of the workflow a name= of its own.",
            )
