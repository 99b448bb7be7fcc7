"""`python -m tests.mutants [NAME …]`: whether the tests notice each fault of the list. `make mutants` calls it.

On copies of the checkout: first the tests of all mutants without any, which must pass, then each mutant with its own. A
line for each, and as the last one a JSON object. It fails where more than one in 25 survives, where a survivor is not
explained, and where a mutant died otherwise than by a test that noticed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from tests.servers import Folder

from .copying import Copy, copy_checkout
from .every import MUTANTS
from .mutant import Mutant
from .trying import BASELINE_SECONDS, KILLED, SURVIVED, UNFIT, Verdict, imported_from, run_tests, try_mutant

OF, TO_KILL = 25, 24

Asked = TypeVar("Asked")
Told = TypeVar("Told")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutants to try (default: all)")
    parser.add_argument("--list", action="store_true", help="tell what there is, and try none")
    parser.add_argument("--lanes", type=int, default=2, help="how many are tried side by side (default: 2)")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.names) - {mutant.name for mutant in MUTANTS}):
        parser.error(f"there is no mutant {', '.join(unknown)}")
    chosen = [mutant for mutant in MUTANTS if not options.names or mutant.name in options.names]
    if options.list:
        for mutant in chosen:
            print(f"{mutant.name:32} {mutant.file}\n    {mutant.breaks}")
        return 0
    began = time.monotonic()
    with Folder() as folder:
        verdicts = Lanes(folder, options.lanes).judge(chosen)
    print(summary(verdicts, time.monotonic() - began))
    return int(not passes(chosen, verdicts))


class Lanes:
    """Copies of the checkout, each with one run of pytest at a time."""

    def __init__(self, folder: Path, count: int) -> None:
        self._folder = folder
        self._count = count
        self._free: SimpleQueue[Copy] = SimpleQueue()
        first = copy_checkout(folder / "lane-0")
        # Of the first, since somebody may be at work in the checkout.
        for copy in (first, *(first.twin(folder / f"lane-{number}") for number in range(1, count))):
            if (source := imported_from(copy)) != copy.root.resolve():
                raise SystemExit(f"The tests of the copy would import the engine from {source}.")
            self._free.put(copy)

    def judge(self, mutants: Sequence[Mutant]) -> list[Verdict]:
        """A verdict for each, told as it comes; none where the tests do not even pass without a mutant."""
        if not self._is_green(mutants):
            return []
        verdicts = []
        attempts = self._each(lambda copy, mutant: try_mutant(copy, mutant, self._folder), mutants)
        for mutant, verdict in zip(mutants, attempts, strict=True):
            print(line(mutant, verdict), flush=True)
            verdicts.append(verdict)
        return verdicts

    def _is_green(self, mutants: Sequence[Mutant]) -> bool:
        selections: dict[str, set[str]] = defaultdict(set)
        for mutant in mutants:
            selections[mutant.backend].update(mutant.tests)
        is_green = True
        for said in self._each(self._without_any, sorted(selections.items())):
            is_green = is_green and not said
            print(said, end="", flush=True)
        return is_green

    def _without_any(self, copy: Copy, part: tuple[str, Iterable[str]]) -> str:
        """What pytest says where the tests do not pass; nothing where they do."""
        backend, tests = part
        run = run_tests(copy, backend, sorted(tests), self._folder / backend, BASELINE_SECONDS)
        return "" if run.status == 0 else f"{run.tail}\nWithout any mutant, on {backend}: status {run.status}.\n"

    def _each(self, call: Callable[[Copy, Asked], Told], asked: Iterable[Asked]) -> Iterable[Told]:
        def on_a_lane(one: Asked) -> Told:
            copy = self._free.get()
            try:
                return call(copy, one)
            finally:
                self._free.put(copy)

        with ThreadPoolExecutor(self._count) as pool:
            yield from pool.map(on_a_lane, asked)


def line(mutant: Mutant, verdict: Verdict) -> str:
    told = verdict.test or verdict.why
    if verdict.kind == SURVIVED:
        told = f"explained: {mutant.explained}" if mutant.explained else "no test notices"
    elif verdict.kind == UNFIT:
        told = f"{verdict.test} {verdict.why}".strip()
    return f"{mutant.name:36} {verdict.kind:9} {verdict.seconds:5.1f} s  {told}"


def summary(verdicts: Sequence[Verdict], seconds: float) -> str:
    counted = {kind: sum(verdict.kind == kind for verdict in verdicts) for kind in (KILLED, SURVIVED)}
    told = {"mutants": len(verdicts), "killed": counted[KILLED], "survived": counted[SURVIVED]}
    return json.dumps({**told, "seconds": round(seconds, 1)})


def passes(mutants: Sequence[Mutant], verdicts: Sequence[Verdict]) -> bool:
    """Whether the tests have noticed enough, and what they have not is explained."""
    kinds = [verdict.kind for verdict in verdicts]
    if not verdicts or UNFIT in kinds or kinds.count(KILLED) * OF < len(kinds) * TO_KILL:
        return False
    pairs = zip(mutants, kinds, strict=True)
    return all(mutant.explained for mutant, kind in pairs if kind == SURVIVED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
