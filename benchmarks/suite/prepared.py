"""A system in one of its variants, on an empty database of its own, with its client up."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .bench import Bench, Sizes
from .client import client
from .stage import Stage
from .systems import Participant


class Unprepared(Exception):
    """The system could not be made ready; it has said why on its standard error."""


@contextmanager
def prepared(
    scene: Stage,
    participant: Participant,
    python: Path,
    variant: str,
    *,
    part: float = 1.0,
    patience: float = 20.0,
    beside: str = "",
    is_late: bool = False,
) -> Iterator[Bench]:
    """Raises Unprepared. ``beside`` names a second one that is there at the same time, with a Redis of its own."""
    database = "_".join(name for name in (participant.name, variant, beside) if name).replace("-", "_")
    environment = scene.environment(database, variant)
    if beside:
        environment["BENCH_REDIS"] = environment["BENCH_REDIS"].replace("db=0", "db=1")
    # A hundred times the same tables, for which it takes a second each time to import and to migrate. Ours are the same
    # in all variants.
    template = f"{participant.name}_{'' if participant.is_own else f'{variant}_'}template".replace("-", "_")
    if scene.has_database(template):
        scene.new_database(database, template)
    else:
        scene.new_database(database)
        if subprocess.run([python, participant.script, "prepare"], env=environment, check=False).returncode:
            raise Unprepared(f"{participant.name} {variant}")
        scene.new_database(template, database)
    log = scene.folder / f"{database}.log"
    with client(python, participant.script, environment) as asked:
        yield Bench(
            scene,
            participant,
            python,
            asked,
            environment,
            database,
            log,
            Sizes().part(part),
            patience,
            part,
            is_late=is_late,
        )
