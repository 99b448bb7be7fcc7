"""One deliberate fault: a line of the engine, what takes its place, and the tests that have to notice."""

from __future__ import annotations

from dataclasses import dataclass

ENGINE = "django_durable"
SQLITE, POSTGRES, REDIS = "sqlite", "postgres-database", "postgres-redis"
"""Where the tests of a mutant run. Hardly a fault here is one of Redis alone, and without it a run begins sooner."""
STORE, MET = "tests/store/test_postgres_races.py::", "tests/reliability/test_postgres_races.py::"
"""The tests of races: of one statement, where somebody commits between its snapshot and its lock; and of two
transactions, where the first has acted and not committed when the second acts."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """``before`` stands once in ``file`` (below the package) and is a part of one line, ``after`` takes its place.

    ``breaks`` says what is wrong then. ``tests`` are pytest's ids, the most telling first, and run on ``backend``.
    """

    name: str
    file: str
    before: str
    after: str
    breaks: str
    tests: tuple[str, ...]
    backend: str = SQLITE
    dies_waiting: bool = False
    """Whether a test may notice by what does not come in time: of any other mutant that is no death."""
    explained: str = ""
    """Why no test can notice, where none does."""

    def applied(self, source: str) -> str:
        """``source`` with the fault in it. Raises DoesNotApply."""
        count = source.count(self.before)
        if count != 1:
            raise DoesNotApply(self, count)
        return source.replace(self.before, self.after)


class DoesNotApply(Exception):
    """The engine has changed: the mutant has to be written anew, or has lost its subject."""

    def __init__(self, mutant: Mutant, count: int) -> None:
        self.mutant = mutant
        super().__init__(f"{mutant.name}: {mutant.file} holds {count} times, instead of once: {mutant.before}")
