"""One round of chaos: load and faults, then peace, then the checks."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from django.core.management import call_command
from django.db import connection

from tests import processes
from tests.chaos.afterwards import ServerLog
from tests.chaos.calming import DRAIN_SECONDS, calm_down
from tests.chaos.checker import told
from tests.chaos.clockwork import Clockwork
from tests.chaos.collecting import collect
from tests.chaos.fleet import Fleet
from tests.chaos.history import begin_history, end_history
from tests.chaos.mixture import MIXTURES
from tests.chaos.nemesis import Nemesis, Targets
from tests.chaos.proxy import Proxy
from tests.chaos.released.unpacking import environment, unpack
from tests.chaos.telling import save
from tests.chaos.totals import Totals
from tests.chaos.watching import Watch
from tests.servers import Guarded, Servers

CHECKOUT = Path(__file__).resolve().parents[2]
OLD_SHARE = 0.25
"""The part of the runs that a client of the released version starts, where its workers are about."""


def play(servers: Servers, seed: str, seconds: float, workers: int, rate: float, totals: Totals) -> None:
    """Add what the round comes to. ``totals`` says how many of the workers are of the released version."""
    assert servers.postgres is not None and servers.redis is not None
    empty(servers)
    begin_history()
    log = ServerLog(servers.postgres.log)
    # Released workers may be the ones that fire, and what they did then cannot be mended any more.
    clockwork = None if totals.old else Clockwork()
    with Proxy(servers.postgres.folder / ".s.PGSQL.5432") as postgres, Proxy(servers.redis.socket) as redis:
        env = through(postgres, redis)
        old_env = {**env, **environment(unpack(servers.folder))} if totals.old else {}
        fleet = Fleet(workers, env, [old_env] * totals.old)
        start = fleet.wait_for_start()
        clients = start_clients(servers.folder, seed, rate, env, old_env)
        watch = Watch(servers.folder / "witness")
        nemesis = Nemesis(seed, Targets(fleet, servers.postgres, servers.redis, postgres, redis, watch), start)
        connection.close()
        began = time.monotonic()
        nemesis.run(seconds)
        lasted = time.monotonic() - began
        wrong = calm_down(clients, servers.folder, fleet, clockwork, max(seconds, DRAIN_SECONDS))
        wrong += log.deadlocks()
    evidence = collect(servers.folder, nemesis.faults, fleet.old_logs)
    save(evidence, servers.folder)
    story = told(evidence)
    totals.add(story, lasted, start, wrong)
    totals.fires += len(clockwork.fires) if clockwork else 0
    processes.kill_all()
    print(f"{seed}: {len(story.runs):,} runs and {len(nemesis.faults)} faults in {lasted:.0f} s", flush=True)


def empty(servers: Servers) -> None:
    """No run, no id in Redis, and no line of a round before."""
    end_history()
    call_command("flush", verbosity=0, interactive=False)
    assert servers.redis is not None
    servers.redis.flush()
    for name in ("witness", "client", "stop", *(f"client-{mixture}.log" for mixture in MIXTURES)):
        (servers.folder / name).unlink(missing_ok=True)


def through(postgres: Proxy, redis: Proxy) -> dict[str, str]:
    """The environment of those who come through the proxies."""
    # Nothing to ask before the first word: a proxy speaks no TLS.
    plain = "?sslmode=disable&gssencmode=disable"
    return {
        "DURABLE_TEST_DATABASE_URL": f"postgresql://postgres@127.0.0.1:{postgres.port}/postgres{plain}",
        "DURABLE_TEST_REDIS_URL": f"redis://127.0.0.1:{redis.port}/0",
        "DJANGO_SETTINGS_MODULE": "tests.chaos.settings",
    }


def start_clients(folder: Path, seed: str, rate: float, env: dict[str, str], old_env: dict[str, str]) -> list[Guarded]:
    """One, or one of each release. No run that the old code starts has what it does not know."""
    if not old_env:
        return [start_client(folder, seed, rate, env)]
    return [
        start_client(folder, seed, rate * (1 - OLD_SHARE), env, "both"),
        start_client(folder, f"{seed}-old", rate * OLD_SHARE, old_env, "plain"),
    ]


def start_client(folder: Path, seed: str, rate: float, env: dict[str, str], mixture: str = "newest") -> Guarded:
    command = [sys.executable, "-m", "tests.chaos.client"]
    options = ["--seed", seed, "--rate", str(rate), "--stop", str(folder / "stop"), "--mixture", mixture]
    log = folder / f"client-{mixture}.log"
    return Guarded([*command, *options], log=log, env={**os.environ, **env}, cwd=CHECKOUT)
