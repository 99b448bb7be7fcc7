"""A soak: `python -m tests.soak --minutes 60 [--load 0.7] [--seed N] [--csv FILE]`.

A worker with two processes first shows what it can do at most; then a client keeps so much of it up, without faults,
and what the worker, PostgreSQL (with fsync) and Redis need is read all the while. Retention is short, so that as much
is deleted as comes. After a quarter of the time nothing may grow any more: the last quarter of the rest is held against
the first. The last line is a JSON object; exit status 0 only where all was flat, the load was held, no run failed and
`durable_check` finds nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.servers import Folder, PostgresServer, RedisServer, Servers
from tests.servers.session import environment
from tests.soak.plan import Plan


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    plan = Plan(60 * options.minutes, options.load)
    print(f"seed {options.seed}", flush=True)
    with (
        Folder() as folder,
        PostgresServer(folder, fsync=True, options=plan.postgres) as postgres,
        RedisServer(folder) as redis,
    ):
        set_up(Servers("postgres-redis", folder, postgres, redis), plan)
        from tests.soak import report
        from tests.soak.soaking import soak

        result = soak(plan, options.seed, redis.client())
        missed = list(report.missed(result))
        if missed:
            print(f"logs: {keep(folder)}")
    if options.csv:
        report.write_csv(result.samples, options.csv)
    print(report.table(result))
    for goal in missed:
        print(f"MISSED: {goal}")
    print(json.dumps(report.as_data(result)))
    return 1 if missed else 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="of the load (default 60)")
    parser.add_argument("--load", type=float, default=0.7, help="part of what the workers can do (default 0.7)")
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10**6)))
    parser.add_argument("--csv", type=Path, help="write every sample there")
    return parser.parse_args(arguments)


def set_up(servers: Servers, plan: Plan) -> None:
    """Django on these servers, with its tables; the processes that are started find them by the environment."""
    servers.environment = environment(servers)
    os.environ.update(servers.environment)
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.soak.settings"
    os.environ["DURABLE_TEST_DATABASE_NAME"] = "postgres"
    os.environ["DURABLE_TEST_SETTINGS"] = json.dumps(plan.durable)
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def keep(folder: Path) -> Path:
    """Where the logs are from now on."""
    kept = Path(tempfile.mkdtemp(prefix="soak-"))
    for log in folder.glob("*.log"):
        shutil.copy(log, kept)
    return kept


if __name__ == "__main__":
    sys.exit(main())
