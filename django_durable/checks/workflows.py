"""The workflows of the installed apps: what no declaration can know by itself (bad options are refused at import)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import Any

from django.core.checks import CheckMessage, register

from ..core.registry import duplicates
from ..core.schedules.cron import Cron
from ..exceptions import InvalidInput, PayloadError
from ..workflows import Workflow
from ..workflows.options import default_name
from ..workflows.registry import declared
from .messages import TAG, Messages, error


@register(TAG)
def check_workflows(**_: Any) -> Messages:
    if twice := duplicates():
        hint = "Names are how runs find their code after a deploy: each must be unique and stable."
        return [error(30, str(one), hint) for one in twice]
    return [message for workflow in declared().values() for message in _schedules(workflow)]


def _schedules(workflow: Workflow[Any, Any]) -> Iterator[CheckMessage]:
    crons = workflow.options.crons
    yield from _misfits(workflow, crons)
    yield from _same_names(workflow, crons)


def _misfits(workflow: Workflow[Any, Any], crons: list[Cron]) -> Iterator[CheckMessage]:
    for cron in crons:
        try:
            workflow.signature.write(workflow.name, (), dict(cron.input or {}))
        except (InvalidInput, PayloadError) as problem:
            yield error(
                31,
                f"The schedule {cron.name or cron.expression!r} of {workflow.name} starts runs that cannot begin: "
                f"{str(problem).rstrip('.')}.",
                f"Give Cron(…, input={{…}}) what {workflow.where} takes, or its parameters defaults.",
            )


def _same_names(workflow: Workflow[Any, Any], crons: list[Cron]) -> Iterator[CheckMessage]:
    unnamed = count(1)
    names = [cron.name or default_name(workflow.name, next(unnamed)) for cron in crons]
    for name, times in Counter(names).items():
        if times > 1:
            yield error(
                32,
                f"{workflow.name} has {times} schedules called {name!r}, and a schedule is found by its name.",
                "Give each Cron(…) of the workflow a name= of its own.",
            )
