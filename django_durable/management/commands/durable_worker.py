"""``manage.py durable_worker``: runs workflows until it is told to stop."""

from __future__ import annotations

import json
import os
import threading
from argparse import ArgumentParser, ArgumentTypeError
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from ...queues.current import queue_kind
from ...queues.eviction import warn_of_eviction
from ...worker import silence
from ...worker.affinity import Cpus, pin_to
from ...worker.child import run_child
from ...worker.logs import log_to_stderr
from ...worker.process import WorkerOptions
from ...worker.reloading import Watcher
from ...worker.spawning import CHILD_ENV, Told, own_command
from ...worker.supervisor import Supervisor


class Command(BaseCommand):
    help = "Runs durable workflows. SIGTERM or Ctrl-C drains; a second one ends at once."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--queues", type=_names, default=("default",), help="comma-separated; default: default")
        parser.add_argument("--processes", type=_positive, default=1, help="worker processes (default 1)")
        parser.add_argument("--concurrency", type=_positive, default=32, help="runs at a time in each (default 32)")
        parser.add_argument("--burst", action="store_true", help="work until nothing is due, then exit")
        parser.add_argument("--max-seconds", type=float, help="drain and exit after so many seconds")
        parser.add_argument("--max-runs", type=_positive, help="drain and exit after so many attempts in a process")
        parser.add_argument("--no-loops", action="store_true", help="no promoting, reaping, firing, pruning here")
        parser.add_argument(
            "--no-standby", action="store_true", help="keep no process ready for the runs of one that dies"
        )
        parser.add_argument("--no-fork", action="store_true", help="execute each process, where a copy would do")
        parser.add_argument("--cpu-affinity", action="store_true", help="pin each process to one CPU (Linux)")
        parser.add_argument("--reload", action="store_true", help="replace the processes when code changes")
        parser.add_argument("--json-logs", action="store_true", help="log lines as JSON objects")
        parser.add_argument("--health-file", type=Path, help="touched at every heartbeat")

    def handle(self, *args: Any, **options: Any) -> None:
        log_to_stderr(options["verbosity"], as_json=options["json_logs"])
        told = os.environ.pop(CHILD_ENV, None)
        if told is not None:
            self._be_child(json.loads(told), options)
            return
        if options["reload"] and options["burst"]:
            raise CommandError("--reload and --burst exclude each other.")
        try:
            cpus = Cpus() if options["cpu_affinity"] else None
        except NotImplementedError as error:
            raise CommandError(f"--cpu-affinity: {error}.") from None
        self.check()
        silence.bound()
        worker = _worker_options(options)
        # A copy would have the code of before.
        may_copy = not (options["reload"] or options["no_fork"])
        supervisor = Supervisor(
            own_command(),
            options["processes"],
            has_standby=worker.is_endless and not options["no_standby"],
            be_child=(lambda told: self._be_child(told, options)) if may_copy else None,
            cpus=cpus,
        )
        if options["reload"]:
            Watcher(supervisor.reload).begin()
        supervisor.run()

    def _be_child(self, told: Told, options: dict[str, Any]) -> None:
        # A supervisor of before that was not started again says nothing of it.
        if (cpu := told.get("cpu")) is not None:
            pin_to(cpu)
        silence.bound()
        if told["loops"] and queue_kind() == "redis":
            # Each time that the first of them begins, so that it stands beside its restarts too. Where Redis does not
            # answer it takes seconds, in which the process begins to work.
            threading.Thread(target=warn_of_eviction, name="durable-redis", daemon=True).start()
        worker = replace(
            _worker_options(options),
            loops=told["loops"] and not options["no_loops"],
            isolated=told["isolated"],
        )
        # Nor of this.
        stands_by = told.get("stands_by", False)
        run_child(UUID(told["id"]), worker, told["orders"], told["reports"], stands_by=stands_by)


def _worker_options(options: dict[str, Any]) -> WorkerOptions:
    names = ("queues", "concurrency", "burst", "max_seconds", "max_runs", "health_file")
    return WorkerOptions(**{name: options[name] for name in names})


def _names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise ArgumentTypeError("give at least one queue")
    return names


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise ArgumentTypeError(f"must be an integer of at least 1, not {text!r}")
    return number
