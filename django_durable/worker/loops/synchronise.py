"""Schedules in code → rows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from django.apps import apps
from django.db.utils import Error

from ...client.redacting import why
from ...conf import durable_settings
from ...core.names import NAME_MAX, check_name
from ...core.payloads.failures import in_one_line
from ...core.payloads.surviving import is_ctrl_c
from ...core.schedules.cron import EXPRESSION_MAX, Cron
from ...store.database import Database
from ...store.declaring import ANOTHER, Declared, declare, tidy
from ...store.scheduling import problem_of, storable
from ...store.workers import known_workflows
from ...workflows.definition import Workflow
from ...workflows.options import default_name
from ...workflows.registry import workflows
from .fit import GRACE_LEASES

logger = logging.getLogger("django_durable.worker")

Known = Callable[[], Mapping[str, Workflow[Any, Any]]]


class Synchronise:
    """Writes what the code says when the worker starts, and confirms from then on that it still says so.

    ``ids`` are the rows of this code: the only ones from any code that this worker fires.
    """

    def __init__(self, known: Known = workflows) -> None:
        # Django's own connection of this thread: these rare transitions are written with the ORM.
        self._db = Database()
        self.known = known
        self.ids: list[int] = []
        self._has_written = False

    @property
    def interval(self) -> float:
        return durable_settings().LEASE_SECONDS / 2 if self._has_written else 1.0

    def tick(self) -> int:
        with kept_connection(self._db):
            self._synchronise()
        return 0

    def _synchronise(self) -> None:
        lease, known = durable_settings().LEASE_SECONDS, self.known()
        several = dict.fromkeys(known.values())  # one that has aliases is known by several names
        labels = {config.label for config in apps.get_app_configs()} | {one.app_label for one in several}
        declared = [one for workflow in several for one in declared_by(workflow)]
        self.ids, is_written, refused = declare(
            self._db,
            declared,
            labels,
            replaces=not self._has_written,
            interval=lease / 4,
            grace=GRACE_LEASES * lease,
        )
        for one in refused:
            name, workflow = in_one_line(one.name), in_one_line(one.workflow)
            logger.error("schedule=%s of %s cannot fire%s", name, workflow, why(one.problem))
        self._has_written = self._has_written or is_written
        tidy(self._db, known, lambda: known_workflows(self._db, GRACE_LEASES * lease))


@contextmanager
def kept_connection(db: Database) -> Iterator[None]:
    """The thread keeps its connection from tick to tick; after an error the next tick gets a new one."""
    try:
        yield
    except Error:
        if not db.connection.in_atomic_block:
            db.connection.close()
        raise


# --- reading the code ------------------------------------------------------------------------


def declared_by(workflow: Workflow[Any, Any]) -> Iterator[Declared]:
    """The schedules of one workflow. What is wrong with one is its own ``problem``; a name is used once."""
    names: set[str] = set()
    unnamed = 0
    for given in _given(workflow):
        is_named = isinstance(given, Cron) and given.name is not None
        unnamed += not is_named
        one = _declared(workflow, given, default_name(workflow.name, unnamed))
        former = [(alias, one.name if is_named else default_name(alias, unnamed)) for alias in workflow.aliases]
        one = replace(one, former=tuple(former))
        while one.name in names:
            # Not the first one's name, which would be the first one's row: only this one is refused.
            name = f"{one.name[: NAME_MAX - 12]} (duplicate)"
            one = _refused(workflow, name, one.expression, f"{ANOTHER} {one.name!r}.")
        names.add(one.name)
        yield one


def _given(workflow: Workflow[Any, Any]) -> list[Any]:
    # Not options.crons: there one bad expression hides the good ones.
    given = workflow.options.cron
    if given is None:
        return []
    return [given] if isinstance(given, str | Cron) or not hasattr(given, "__iter__") else list(given)


def _declared(workflow: Workflow[Any, Any], given: Any, name: str) -> Declared:
    try:
        cron = given if isinstance(given, Cron) else Cron(given)
        text = workflow.signature.write(
            workflow.name, (), dict(cron.input or {}), limit=durable_settings().MAX_PAYLOAD_BYTES
        )
        return Declared(
            workflow=workflow.name,
            name=name if cron.name is None else check_name("schedule", cron.name),
            app_label=workflow.app_label,
            expression=cron.expression,
            timezone=cron.timezone,
            input=text,
            overlap=cron.overlap,
            catch_up=cron.catch_up,
            jitter=cron.jitter,
            enabled=cron.enabled,
        )
    except BaseException as error:  # annotations and inputs are the user's code: one schedule must not stop the others
        if is_ctrl_c(error):
            raise
        if isinstance(given, Cron) and given.name is not None:
            name = storable(given.name, NAME_MAX)
        return _refused(workflow, name, str(getattr(given, "expression", given)), problem_of(error))


def _refused(workflow: Workflow[Any, Any], name: str, expression: str, problem: str) -> Declared:
    return Declared(workflow.name, name, workflow.app_label, storable(expression, EXPRESSION_MAX), problem=problem)
