"""A million runs with their journals in PostgreSQL, as a busy installation has them after five weeks.

    python benchmarks/seed.py --database URL [--runs N]

Two minutes. The database has to be empty of runs; its tables are made. What is copied has been worked by the engine
itself (benchmarks/seeding), so that journals, errors and events are what they are in life; PostgreSQL makes the copies.
To look at it: BENCH_DATABASE='{"ENGINE": ..., ...}' DJANGO_SETTINGS_MODULE=benchmarks.seeding.settings with Django's
own commands (createsuperuser, runserver), or DATABASE_URL=URL for the example project.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

RUNS = 1_000_000


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", required=True, help="URL of a PostgreSQL database without runs")
    parser.add_argument("--runs", type=int, default=RUNS)
    options = parser.parse_args(arguments)
    from tests.servers import database_settings

    set_up(database_settings(options.database))
    from benchmarks.seeding.history import NotEmpty, seed

    began = time.monotonic()
    try:
        counts = seed(options.runs)
    except NotEmpty as error:
        print(error, file=sys.stderr)
        return 1
    print("\n".join(f"{count:>12,} {what}" for what, count in counts.items()))
    print(f"{time.monotonic() - began:.0f} s")
    return 0


def set_up(database: dict[str, Any]) -> None:
    """Django with the settings of the seeded database, and its tables."""
    os.environ["BENCH_DATABASE"] = json.dumps(database)
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.seeding.settings"
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)


if __name__ == "__main__":
    sys.exit(main())
