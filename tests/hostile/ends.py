"""How runs end that were given something from the corpus: in a defined way, and the next ones as ever."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django_durable.client.handle import RunHandle
from django_durable.core.payloads.codec import decode, encode
from django_durable.core.payloads.failures import describe
from django_durable.models import Payload, Run
from django_durable.testing import run_until_idle
from tests.app.workflows import doubling, doubling_async

OVER = ("succeeded", "failed", "cancelled", "blocked")


@contextmanager
def nothing_escapes() -> Iterator[None]:
    """What is raised in it is told in words: of some exceptions of the corpus pytest cannot even write down that they
    were raised, and others would end it."""
    try:
        yield
    except BaseException as error:
        told = describe(error)
    else:
        return
    raise AssertionError(f"it has raised {told['type']}: {told['traceback'][-3_000:]}") from None


def start_all(workflow: Any, inputs: dict[Any, dict[str, Any]]) -> dict[Any, RunHandle[Any]]:
    """A run for each of these inputs, by the same names. All of them at once take a fraction of the time."""
    return dict(zip(inputs, workflow.enqueue_many(inputs.values()), strict=True))


def rows_of(runs: dict[Any, RunHandle[Any]]) -> dict[Any, Run]:
    """As they are now, by the names of the runs."""
    rows = Run.objects.in_bulk([run.id for run in runs.values()])
    return {name: rows[run.id] for name, run in runs.items()}


def statuses_of(runs: dict[Any, RunHandle[Any]]) -> dict[Any, str]:
    return {name: row.status for name, row in rows_of(runs).items()}


def undefined(run: RunHandle[Any], row: Run, has_output: bool) -> str:
    """What is not defined about the end of this run; nothing where it is as it should be."""
    if row.status == "waiting" and row.children.filter(status="blocked").exists():
        return ""  # as long as somebody may resume the child
    if row.status not in OVER:
        return f"is {row.status}, waiting on {row.waiting_on!r}, after {row.claims} claims"
    if row.lease_token is not None:
        return "has a lease"
    if row.status == "blocked":
        return "" if row.block_reason and run.why().text else "is blocked for no reason"
    if row.status == "failed":
        error = run.error
        told = isinstance(error, dict) and type(error.get("type")) is str and type(error.get("message")) is str
        return "" if told else f"has failed with {error!r:.200}"
    return "" if row.status == "cancelled" or has_output else "has succeeded with no output"


def all_undefined(runs: dict[Any, RunHandle[Any]]) -> dict[Any, str]:
    """By the names of the runs, of those about whose end something is not."""
    ids = [run.id for run in runs.values()]
    outputs = set(Payload.objects.filter(run_id__in=ids, kind="output").values_list("run_id", flat=True))
    found = {name: undefined(runs[name], row, row.pk in outputs) for name, row in rows_of(runs).items()}
    return {name: problem for name, problem in found.items() if problem}


ERROR_MAX = 600_000
"""Bytes of what is stored of one: ten thousand characters of message, twelve related ones, ten notes of each."""


def too_large(runs: dict[Any, RunHandle[Any]]) -> dict[Any, int]:
    """By the names of the runs, of those that have too much stored of their errors."""
    sizes = {what: _size(run) for what, run in runs.items()}
    return {what: size for what, size in sizes.items() if size > ERROR_MAX}


def _size(run: RunHandle[Any]) -> int:
    return sum(map(len, Payload.objects.filter(run_id=run.id).values_list("data", flat=True)))


def same(one: Any, other: Any) -> bool:
    """Exactly: what is equal may differ in its types, and a NaN equals nothing."""
    return encode(one) == encode(other)


def told_well(what: str, error: Any) -> bool:
    """Whether it says that a value cannot be stored, in itself or in what it is made of. Of one whose every attribute
    raises nobody can tell whether it has to be awaited: it says what was raised."""
    return "PayloadError" in repr(error) or (what == "every attribute raises" and "Rude" in repr(error))


def undecodable() -> list[str]:
    """Stored texts that cannot be read again, or that are no ASCII."""
    texts = Payload.objects.values_list("run_id", "kind", "data")
    return [f"{kind} of {run_id}" for run_id, kind, data in texts if not data.isascii() or not is_read(data)]


def is_read(data: str) -> bool:
    try:
        decode(data)
    except ValueError:
        return False
    return True


def the_next_ones_are_well() -> bool:
    """Whether runs of others still come to their ends."""
    runs = [doubling.enqueue(4), doubling_async.enqueue(4)]
    run_until_idle()
    return [run.result(timeout=0) for run in runs] == [8, 8] and not Run.objects.filter(status="running").exists()
