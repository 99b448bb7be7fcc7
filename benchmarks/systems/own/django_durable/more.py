"""What only this project's client is asked: rows that are there already, sleepers, fan-outs, loops, resumes."""

from __future__ import annotations

import base64
import random
from contextlib import ExitStack
from typing import Any
from uuid import UUID

from counts import Counts
from protocol import batches, naps

DAY = 86_400_000
"""Milliseconds."""
ASLEEP = 600
"""Seconds that a sleeper sleeps in all, so that those that come due soon were started before anything else here."""
LOOP_SECONDS = 180.0
"""For ten thousand turns of a commit each, which may so take eighteen milliseconds."""


class More:
    """Calls besides those of ``protocol.System``; ``after`` is the last id of what ``clear`` has to leave."""

    after: UUID | None = None
    counts = Counts()
    variant: str
    one_step: Any
    naps: Any

    def history(self, count: int) -> None:
        """``count`` runs that finished during the last twenty days, copies of one that is here. They stay for good,
        and so the counting looks at later runs only; with a ``count`` of 0 it does just that."""
        from benchmarks import rows
        from django_durable.models import Run

        now = rows.milliseconds()
        if count:
            template = Run.objects.filter(status="succeeded").latest("pk").pk
            rows.multiply(template, count, first=now - 21 * DAY, step=20 * DAY / count)
        self.after = rows.id_at(now - DAY // 2)
        rows.settle(after=self.after)
        self.counts = Counts(self.after)

    def queue_up(self, count: int) -> None:
        """``count`` queued runs that nobody sees before ``show_queued``."""
        from django.db import transaction

        from benchmarks import rows

        # Their ids are older than what has been counted so far.
        self.counts = Counts(self.after)
        self._hidden = ExitStack()
        self._hidden.enter_context(transaction.atomic())
        template = self.one_step.enqueue(count=1).id
        if count > 1:
            rows.multiply(template, count - 1, first=rows.milliseconds() - count, step=1)

    def show_queued(self) -> None:
        from benchmarks import rows

        self._hidden.close()
        rows.settle()
        rows.push_queued()

    def sleep_many(self, count: int) -> None:
        """``count`` runs that sleep until tomorrow."""
        from django.db import connection

        from benchmarks import rows

        template = self._sleeper(DAY / 1000).pk
        if count > 1:
            rows.multiply(template, count - 1, first=rows.milliseconds() - count, step=1)
        rows.settle()
        # PostgreSQL counts what a silent session has done up to ten seconds later, or when it ends.
        connection.close()

    def wake_later(self, count: int, each_second: int, seconds: float) -> None:
        """``count`` sleeping runs of which ``each_second`` come due in each second, the first ``seconds`` from now."""
        from django.db import transaction

        from benchmarks import rows

        # It is none of them: it comes due when all of this is over.
        template = self._sleeper(ASLEEP)
        # They come due when their row says so, which was written a moment after the run was started.
        slept = (template.wake_at - template.created_at).total_seconds()
        first, step = rows.milliseconds() + round(1000 * (seconds - slept)), 1000 / each_second
        with transaction.atomic():
            # None is claimed before its journal is there.
            rows.multiply(template.pk, count, first=first, step=step)
        # What came due before it was there would be late by the time that its insertion took.
        assert rows.milliseconds() - first < 1000 * slept, "the first came due before all were there"
        self._waking = rows.id_at(first), rows.id_at(first + round(count * step) + 1), slept

    def _sleeper(self, seconds: float) -> Any:
        """A run that a worker has parked in ``ctx.sleep``, with its journal: what the others are copies of."""
        from benchmarks.project.workflows import asleep
        from benchmarks.quick import wait_for

        handle = asleep.enqueue(seconds=seconds)
        wait_for(lambda: handle.refresh().status == "waiting")
        return handle.run

    def nap(self, until: float, apart: float, count: int) -> None:
        """As ``protocol.System``."""
        for instants in batches(naps(until, apart, count)):
            self.naps.enqueue_many([{"until": instant} for instant in instants])

    def have_woken(self) -> bool:
        """Whether all runs of ``wake_later`` have succeeded. From the last one backwards: it is asked often, and hardly
        one ends after that."""
        from django_durable.models import Run

        first, last, _ = self._waking
        others = Run.objects.filter(pk__range=(first, last)).exclude(status="succeeded")
        return others.order_by("-pk").first() is None

    def lags(self) -> list[float]:
        """Of the runs of ``wake_later``, as ``rows.lags``."""
        from benchmarks import rows

        return rows.lags(*self._waking)

    def enqueue_texts(self, count: int, kilobytes: int, batch: int) -> None:
        """Runs that carry a text of that size, which hardly compresses, as input, journaled value and outcome."""
        from benchmarks.project.workflows import carry

        noise = base64.b64encode(random.Random(kilobytes).randbytes(768 * kilobytes)).decode()
        for first in range(0, count, batch):
            carry.enqueue_many([{"text": noise}] * min(batch, count - first))

    def park(self, counts: list[int]) -> list[str]:
        """A run for each count that journals so many steps and then waits: their ids."""
        from benchmarks.project.workflows import parked

        return [str(parked.enqueue(count=count).id) for count in counts]

    def parked(self) -> int:
        from django_durable.models import Run

        return Run.objects.filter(status="waiting").count()

    def resume(self, run_id: str, times: int) -> list[float]:
        """Seconds of a claim of a parked run, and of its replay up to the first new step; no worker is alive then."""
        from benchmarks.replay import resume
        from django_durable import get_run

        handle = get_run(run_id)
        if handle.status == "waiting":
            handle.send_event("go on")
        return list(resume("bench.parked", UUID(run_id), times))

    def fan_out(self, count: int) -> float:
        """Milliseconds of each of so many children."""
        from benchmarks.fanout import measure_one

        return measure_one(count).child_ms

    def loop(self, turns: int) -> tuple[float, float]:
        """Seconds of an early turn of a loop of so many, and of a late one."""
        from benchmarks.loops import measure

        found = measure(turns)
        return found.early, found.late

    def loop_in_worker(self, marks: list[int]) -> list[float]:
        """The instants of these turns of a loop, the last of which ends it; a worker process makes them all."""
        from benchmarks.project.workflows import loop, plain_loop
        from benchmarks.quick import compare
        from django_durable.models import JournalEntry

        is_plain = self.variant == "sync-plain"
        handle = (plain_loop if is_plain else loop).enqueue(marks=marks)
        instants = handle.result(timeout=LOOP_SECONDS)
        # In one claim, or there is a replay between them; and of the turns of ``ctx.loop`` only the loop is left.
        journaled = JournalEntry.objects.filter(run_id=handle.id).count()
        compare((handle.refresh().run.claims, journaled), (1, marks[-1] + 1 if is_plain else 1))
        return instants
