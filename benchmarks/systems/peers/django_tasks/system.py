"""django-tasks-db 0.13, the database backend of django-tasks 0.12 (Django's own Tasks for Django 5.2): durable jobs.

Follows https://github.com/RealOrangeOne/django-tasks-db#readme and ``db_worker --help``. It knows jobs only: neither
chains nor a bulk door.
"""

import os
import sys
import time
from pathlib import Path

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
django.setup()

from copies import DAY, Copies, forget_later  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402
from django_tasks_db.models import DBTaskResult  # noqa: E402
from protocol import System, Unsupported, naps, serve  # noqa: E402
from tasks import nap, step  # noqa: E402

OPTIONS = {
    "--settings": "settings",
    "--pythonpath": str(Path(__file__).parent),
    # How long an idle worker sleeps: a second by default, which every lone task waits for.
    "--interval": "0.01",
    # It writes two lines for each task otherwise.
    "--verbosity": "0",
}


TABLE = DBTaskResult._meta.db_table


class DjangoTasks(System):
    place = "(0,0)"
    """Where in the table history ends: it has no index by which later tasks could be counted without all others."""
    after = 0.0
    """Unix time: what is older is history."""

    def prepare(self) -> None:
        call_command("migrate", verbosity=0)

    def connect(self) -> None:
        connection.ensure_connection()

    def clear(self) -> None:
        with connection.cursor() as cursor:
            if self.after:
                forget_later(cursor, {TABLE: f"enqueued_at > to_timestamp({self.after})"})
            else:
                cursor.execute(f"TRUNCATE {TABLE}")

    def history(self, count: int) -> None:
        self.after = time.time() - DAY / 2
        with connection.cursor() as cursor:
            if count:
                one = DBTaskResult.objects.successful().values_list("pk", flat=True)[0]
                copies = Copies(cursor, count)
                own = dict.fromkeys(("enqueued_at", "started_at", "finished_at"), copies.at)
                copies.of(TABLE, own | {"id": copies.random_id("old.id")}, f"id = '{one}'")
            self.clear()
            # No page of the history has room for a later task, but the last.
            cursor.execute(f"VACUUM (FULL, ANALYZE) {TABLE}")
            cursor.execute(f"SELECT coalesce(max(ctid), '(0,0)')::text FROM {TABLE}")
            [self.place] = cursor.fetchone()

    def enqueue(self, count: int, steps: int) -> None:
        if steps > 1:
            raise Unsupported("neither steps nor chains")
        for _ in range(count):
            step.enqueue()

    def finished(self) -> int:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT count(*) FROM {TABLE} WHERE status = 'SUCCESSFUL' AND ctid > '{self.place}'")
            return int(cursor.fetchone()[0])

    def latency(self, count: int) -> list[float]:
        milliseconds = []
        for _ in range(count):
            began = time.perf_counter()
            result = step.enqueue()
            while not result.is_finished:
                time.sleep(0.001)
                result.refresh()
            milliseconds.append((time.perf_counter() - began) * 1000)
        return milliseconds

    def nap(self, until: float, apart: float, count: int) -> None:
        for instant in naps(until, apart, count):
            nap.enqueue(instant)

    def worker_commands(self, processes: int) -> list[list[str]]:
        options = [part for option in OPTIONS.items() for part in option]
        # Without the delay of up to a second by which workers that start together come apart.
        command = [sys.executable, "-m", "django", "db_worker", "--no-startup-delay", *options]
        return [command] * processes


serve(DjangoTasks())
