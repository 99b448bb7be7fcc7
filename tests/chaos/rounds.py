"""One round of chaos: load and faults, then peace, then the checks."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from django.core.management import call_command
from django.db import connection

from django_durable.models import Run
from tests import processes
from tests.app.workflows import doubling
from tests.chaos.checker import told
from tests.chaos.collecting import collect
from tests.chaos.evidence import Violation
from tests.chaos.fleet import Fleet, queue_of
from tests.chaos.history import begin_history, end_history
from tests.chaos.nemesis import Nemesis, Targets
from tests.chaos.proxy import Proxy
from tests.chaos.report import Totals
from tests.chaos.telling import save
from tests.chaos.watching import Watch
from tests.processes import wait_until
from tests.servers import Guarded, Servers

CHECKOUT = Path(__file__).resolve().parents[2]
CLIENT_SECONDS = 60.0
DRAIN_SECONDS = 120.0
TAIL = 5
TAIL_SECONDS = 5.0
STOP_SECONDS = 40.0


def play(servers: Servers, seed: str, seconds: float, workers: int, rate: float, totals: Totals) -> None:
    """Add what the round comes to."""
    assert servers.postgres is not None and servers.redis is not None
    empty(servers.folder)
    begin_history()
    with Proxy(servers.postgres.folder / ".s.PGSQL.5432") as postgres, Proxy(servers.redis.socket) as redis:
        env = through(postgres, redis)
        fleet = Fleet(workers, env)
        start = fleet.wait_for_start()
        client = start_client(servers.folder, seed, rate, env)
        watch = Watch(servers.folder / "witness")
        nemesis = Nemesis(seed, Targets(fleet, servers.postgres, servers.redis, postgres, redis, watch), start)
        connection.close()
        began = time.monotonic()
        nemesis.run(seconds)
        lasted = time.monotonic() - began
        wrong = calm_down(client, servers.folder, fleet)
    evidence = collect(servers.folder, nemesis.faults)
    save(evidence, servers.folder)
    story = told(evidence)
    totals.add(story, lasted, start)
    totals.violations += [Violation("liveness", "", text) for text in wrong]
    processes.kill_all()
    print(f"{seed}: {len(story.runs):,} runs and {len(nemesis.faults)} faults in {lasted:.0f} s", flush=True)


def empty(folder: Path) -> None:
    """No run, and no line of a round before."""
    end_history()
    call_command("flush", verbosity=0, interactive=False)
    for name in ("witness", "client", "client.log", "stop"):
        (folder / name).unlink(missing_ok=True)


def through(postgres: Proxy, redis: Proxy) -> dict[str, str]:
    """The environment of those who come through the proxies."""
    # Nothing to ask before the first word: a proxy speaks no TLS.
    plain = "?sslmode=disable&gssencmode=disable"
    return {
        "DURABLE_TEST_DATABASE_URL": f"postgresql://postgres@127.0.0.1:{postgres.port}/postgres{plain}",
        "DURABLE_TEST_REDIS_URL": f"redis://127.0.0.1:{redis.port}/0",
    }


def start_client(folder: Path, seed: str, rate: float, env: dict[str, str]) -> Guarded:
    command = [sys.executable, "-m", "tests.chaos.client"]
    options = ["--seed", seed, "--rate", str(rate), "--stop", str(folder / "stop")]
    return Guarded([*command, *options], log=folder / "client.log", env={**os.environ, **env}, cwd=CHECKOUT)


def calm_down(client: Guarded, folder: Path, fleet: Fleet) -> list[str]:
    """Everything is healed: the client comes to its end, then every run, then everybody. What did not, in words."""
    (folder / "stop").touch()
    wrong = [
        *in_time("the client to end", CLIENT_SECONDS, lambda: not client.running),
        *in_time("every run to be over", DRAIN_SECONDS, lambda: not Run.objects.live().exists()),
        *last_runs(list(fleet.workers)),
    ]
    client.kill()
    if "Traceback" in (folder / "client.log").read_text():
        wrong.append("the client stumbled: see client.log")
    return wrong + fleet.stop(STOP_SECONDS)


def last_runs(places: list[int]) -> list[str]:
    """After all that has happened, each worker does new work at once."""
    runs = [doubling.using(queue=queue_of(place)).enqueue(place) for place in places for _ in range(TAIL)]
    done = Run.objects.filter(pk__in=[run.id for run in runs], status="succeeded")
    return in_time("the last runs of each worker to succeed", TAIL_SECONDS, lambda: done.count() == len(runs))


def in_time(what: str, seconds: float, condition: Callable[[], bool]) -> list[str]:
    try:
        wait_until(condition, seconds, what)
    except AssertionError as error:
        return [str(error)]
    return []
