"""What tests ask about runs, with answers that name what was there instead."""

from __future__ import annotations

import inspect
from typing import Any
from uuid import UUID

from ..client.handle import RunHandle, get_run
from ..core.journal.states import Kind, PayloadKind
from ..exceptions import InvalidInput, PayloadUndecodable
from ..models import Fire, Payload, Run, Schedule
from ..store.database import Database
from ..workflows.definition import Workflow
from ..workflows.registry import get_workflow
from .paths import is_called

SHOWN = 20

AnyWorkflow = Workflow[Any, Any] | str
AnyRun = RunHandle[Any] | Run | UUID | str


def assert_enqueued(workflow: AnyWorkflow, /, **input: Any) -> RunHandle[Any]:
    """There is a run of ``workflow`` (or of its name) whose input has at least these values; its handle, the newest.

    Whether it has started, or is over, does not matter. Defaults of the signature count as input.
    """
    found, runs = _resolve(workflow), _inputs_by_run(workflow)
    _check_names(found, input)
    for run_id, given in runs.items():
        if _has(given, input):
            return get_run(run_id)
    raise AssertionError(f"No run of {found.name} with {_shown(input)} was enqueued. {_others(runs)}")


def assert_not_enqueued(workflow: AnyWorkflow, /, **input: Any) -> None:
    """There is no such run."""
    found = _resolve(workflow)
    _check_names(found, input)
    same = [run_id for run_id, given in _inputs_by_run(workflow).items() if _has(given, input)]
    if same:
        raise AssertionError(f"{found.name} with {_shown(input)} was enqueued: {', '.join(map(str, same[:SHOWN]))}.")


def assert_step_ran(run: AnyRun, step: str, times: int | None = 1) -> None:
    """The journal of ``run`` has ``times`` attempts of ``step``, a name (with all its keys and scopes) or a path.

    ``times=None``: any number but none. An attempt that a crash kept out of the journal is not counted.
    """
    handle = get_run(run.id if isinstance(run, RunHandle | Run) else run)
    steps = [info for info in handle.steps() if info.kind == Kind.STEP]
    ran = sum(info.attempts for info in steps if is_called(info.path, step))
    if ran != times and not (times is None and ran):
        journal = ", ".join(f"{info.path!r} ({info.status}, attempts: {info.attempts})" for info in steps[:SHOWN])
        raise AssertionError(
            f"Step {step!r} of {handle.workflow} ran {ran} times, not {'at least once' if times is None else times}. "
            f"The run is {handle.status}; its steps: {journal or 'none'}."
        )


def assert_fired(workflow: AnyWorkflow, times: int | None = 1, *, schedule: str | None = None) -> list[RunHandle[Any]]:
    """The schedules of ``workflow`` (or of its name) have started ``times`` runs; their handles, the oldest first.

    ``times=None``: any number but none. ``schedule``: only the one of that name counts.
    """
    found = _resolve(workflow)
    rows = _schedules(found, schedule)
    fires = Fire.objects.using(Database().alias).filter(schedule__in=rows).order_by("scheduled_for")
    ran = [RunHandle[Any](run_id) for run_id in fires.values_list("run_id", flat=True) if run_id is not None]
    if len(ran) != times and not (times is None and ran):
        raise AssertionError(
            f"Schedules of {found.name} have started {len(ran)} run{'s' * (len(ran) != 1)}, "
            f"not {'at least one' if times is None else times}. " + " ".join(f"{_history(row)}." for row in rows)
        )
    return ran


# --- schedules -------------------------------------------------------------------------------


def _schedules(workflow: Workflow[Any, Any], name: str | None) -> list[Schedule]:
    """Raises AssertionError where there is none: it could not have fired, whatever the test has done."""
    rows = list(Schedule.objects.using(Database().alias).filter(workflow=workflow.name).order_by("name"))
    if not rows:
        raise AssertionError(
            f"There is no schedule of {workflow.name} yet. Those in code are made by run_until_idle() within travel()."
        )
    chosen = [row for row in rows if name in (None, row.name)]
    if not chosen:
        raise AssertionError(
            f"No schedule of {workflow.name} is called {name!r}, only {', '.join(repr(row.name) for row in rows)}."
        )
    return chosen


def _history(row: Schedule) -> str:
    """What has become of a schedule's instants, the latest ones."""
    fires = Fire.objects.using(Database().alias).filter(schedule=row).order_by("-scheduled_for")[:SHOWN]
    told = [f"{fire.outcome} at {fire.scheduled_for}" for fire in reversed(fires)]
    told.append(row.problem or (f"next at {row.next_fire_at}" if row.enabled else "disabled"))
    return f"{row.name!r} ({row.expression} {row.timezone}): {', '.join(told)}"


# --- inputs ----------------------------------------------------------------------------------


def _resolve(workflow: AnyWorkflow) -> Workflow[Any, Any]:
    return get_workflow(workflow) if isinstance(workflow, str) else workflow


def _inputs_by_run(workflow: AnyWorkflow) -> dict[UUID, dict[str, Any]]:
    found = _resolve(workflow)
    alias = Database().alias
    runs = list(Run.objects.using(alias).filter(workflow=found.name).order_by("-pk").values_list("pk", flat=True))
    texts = Payload.objects.using(alias).filter(run__workflow=found.name, kind=PayloadKind.INPUT)
    stored = dict(texts.values_list("run_id", "data"))
    return {run_id: _read(found, stored[run_id]) for run_id in runs if run_id in stored}


def _read(workflow: Workflow[Any, Any], text: str) -> dict[str, Any]:
    """The input by parameter, with defaults. What this code cannot read is equal to nothing."""
    try:
        args, kwargs = workflow.signature.read(workflow.name, text)
    except (PayloadUndecodable, InvalidInput):
        return {}
    signature = inspect.signature(workflow.fn)
    arguments = signature.bind(None, *args, **kwargs).arguments
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            arguments |= arguments.pop(name, {})
    return dict(list(arguments.items())[1:])


def _check_names(workflow: Workflow[Any, Any], input: dict[str, Any]) -> None:
    """A name that the workflow does not have would never match, or always."""
    parameters = list(inspect.signature(workflow.fn).parameters.values())[1:]
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    if unknown := set(input) - {parameter.name for parameter in parameters}:
        raise TypeError(f"{workflow.name} has no parameter {', '.join(sorted(unknown))}.")


def _has(given: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return all(name in given and given[name] == value for name, value in wanted.items())


def _shown(values: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in values.items()) or "any input"


def _others(runs: dict[UUID, dict[str, Any]]) -> str:
    if not runs:
        return "No run of it was."
    return "Enqueued were: " + "; ".join(_shown(given) for given in list(runs.values())[:SHOWN]) + "."
