"""Bodies of the steps that random programs take: each bears witness, and kills, fails or counts as it is told. And what
bears witness of how a run's function ends.

They use nothing of django_durable but what every release has: workers of a released version execute them as well.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from django.apps import apps
from django.db.models import F

from django_durable import NonRetriableError, current_step
from tests.chaos import witness


@contextmanager
def one_execution() -> Iterator[str]:
    """Tells of the execution that lies within, and of how it ends; gives what tells it from every other."""
    by = uuid4().hex[:12]
    witness.bear_witness(witness.BEGIN, by)
    try:
        yield by
    except Exception:
        witness.bear_witness(witness.RAISE, by)
        raise
    witness.bear_witness(witness.END, by)


@contextmanager
def one_attempt(ctx: Any) -> Iterator[None]:
    """Tells how the function of the run ends, all of which lies within.

    What it says is written before the engine hears of the end: whoever is killed after it has stored an outcome has
    said this before.
    """

    def ends(moment: str) -> None:
        # Of its claim a function is told nothing: every release has it here.
        witness.bear_witness_of_end(moment, ctx.run_id, ctx.attempt, ctx._flow.lease.token)

    try:
        yield
    except Exception:
        ends(witness.RAISE)
        raise
    except BaseException:
        ends(witness.UNWIND)
        raise
    ends(witness.RETURN)


def work(value: Any, seconds: float) -> dict[str, Any]:
    with one_execution() as by:
        time.sleep(seconds)
    return {"value": value, "by": by}


async def work_async(value: Any, seconds: float) -> dict[str, Any]:
    with one_execution() as by:
        await asyncio.sleep(seconds)
    return {"value": value, "by": by}


def item(number: int) -> dict[str, Any]:
    return work(number * 2, 0.0)


def stumble(value: Any, failures: int) -> dict[str, Any]:
    with one_execution() as by:
        if current_step().attempt <= failures:
            raise ValueError("not yet")
    return {"value": value, "by": by}


def fail() -> None:
    with one_execution():
        raise NonRetriableError("as the program wants it")


def count_up(value: Any) -> dict[str, Any]:
    """Adds one to the run's own counter."""
    # By its label: where a released version works, another app has it, with the same table.
    counters: Any = apps.get_model("app", "Counter")._default_manager

    with one_execution() as by:
        counter, _ = counters.get_or_create(name=f"chaos {current_step().run_id}")
        counters.filter(pk=counter.pk).update(value=F("value") + 1)
    return {"value": value, "by": by}


def undo(done: dict[str, Any]) -> dict[str, Any]:
    with one_execution() as by:
        return {"value": done["value"], "by": by}


def die_once(value: Any) -> dict[str, Any]:
    """Kills its process, the first time that it runs."""
    with one_execution() as by:
        if _is_first():
            witness.bear_witness(witness.DIE, by)
            os.kill(os.getpid(), signal.SIGKILL)
    return {"value": value, "by": by}


def _is_first() -> bool:
    step = current_step()
    place = hashlib.sha256(f"{step.run_id} {step.path}".encode()).hexdigest()[:20]
    try:
        os.close(os.open(Path(os.environ["DURABLE_TEST_FOLDER"]) / f"died-{place}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True
