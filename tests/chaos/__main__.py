"""Chaos: `python -m tests.chaos --duration 60 --seed N [--workers 3] [--old 0] [--tries 1 --within 120] [--keep]`.

Workers and a client speak to PostgreSQL and Redis through proxies, a nemesis hits all of them, and in the end, when
everything is healed and every run is over, the checker looks at what is left. A long one goes in rounds. With `--old`
some of the workers, and a second client, are of the released version, on the tables of this checkout. The last line is
a JSON object; exit status 0 only where every goal holds. With `--tries` a run that did too little, or went on too late,
does not count, and another takes its place, as long as no more than `--within` seconds have passed since the first
began; one with a violation is the last. The last line says what those before it have missed.
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
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.servers import Servers, servers_for

if TYPE_CHECKING:
    from tests.chaos.totals import Totals
    from tests.chaos.tries import Earlier

ROUND_SECONDS = 120.0
"""Short enough that what two cores do not manage beside the faults is not what most runs wait for."""
RATE = 40.0
"""Runs a second that the client starts while nothing is in its way: somewhat more than the two thousand a minute that
have to come. What two cores cannot do beside the faults would only queue up, and hide how long a recovery takes."""
WITHIN_SECONDS = 120.0
"""Of a minute each, which takes a minute and a half with all that is around it, that lets one more begin."""

NO_LOGS = shutil.ignore_patterns("postgres", "redis", "binaries", "runtime", "released", "died-*")


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    with servers_for("postgres-redis") as servers:
        set_up(servers)
        from tests.chaos.goals import Verdict
        from tests.chaos.tries import in_tries

        trial_of = partial(trial, servers, options)
        verdict = in_tries(trial_of, options.seed, tries=options.tries, within=options.within)
    return int(verdict is not Verdict.HOLDS)


def trial(servers: Servers, options: argparse.Namespace, seed: str, earlier: list[Earlier]) -> Totals:
    """All rounds of one seed, and what is printed of them."""
    from tests.chaos.goals import missed
    from tests.chaos.report import as_data, table
    from tests.chaos.rounds import play
    from tests.chaos.totals import Totals

    print(f"seed {seed}", flush=True)
    totals = Totals(seed, options.old)
    rounds = max(1, round(options.duration / ROUND_SECONDS))
    for number in range(rounds):
        of_round = f"{seed}-{number}"
        found = len(totals.violations)
        play(servers, of_round, options.duration / rounds, options.workers, options.rate, totals)
        # One that took long is to be explained too, whatever the rest of them come to.
        latest = totals.rounds[-1]
        is_slow = any(timed.seconds > 2 * latest.allowed for timed in latest.clear)
        if options.keep or is_slow or len(totals.violations) > found:
            print(f"logs of {of_round}: {keep(servers.folder)}", flush=True)
    print(table(totals))
    for goal in missed(totals):
        print(f"MISSED: {goal}")
    print(json.dumps(as_data(totals, earlier)), flush=True)
    return totals


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--duration", type=float, default=60.0, help="seconds of faults (default 60)")
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10**6)))
    parser.add_argument("--workers", type=int, default=3, help="supervisors (default 3)")
    parser.add_argument("--old", type=int, default=0, help="so many of them run the released version (default 0)")
    parser.add_argument("--rate", type=float, default=RATE, help=f"runs a second (default {RATE:g})")
    parser.add_argument(
        "--tries", type=int, default=1, help="so often at most, where too little was done or too late (default 1)"
    )
    parser.add_argument(
        "--within",
        type=float,
        default=WITHIN_SECONDS,
        help=f"seconds after the beginning of the first, in which another one may begin (default {WITHIN_SECONDS:g})",
    )
    parser.add_argument("--keep", action="store_true", help="keep the logs also where nothing is wrong")
    return parser.parse_args(arguments)


def set_up(servers: Servers) -> None:
    """Django on these servers, with its tables; the processes that are started find them by the environment."""
    os.environ.update(servers.environment)
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    os.environ["DURABLE_TEST_DATABASE_NAME"] = "postgres"
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def keep(folder: Path) -> Path:
    """Where the logs are from now on."""
    kept = Path(tempfile.mkdtemp(prefix="chaos-"))
    shutil.copytree(folder, kept, ignore=NO_LOGS, dirs_exist_ok=True)
    return kept


if __name__ == "__main__":
    sys.exit(main())
