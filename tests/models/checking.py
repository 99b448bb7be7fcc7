"""One variant through SPIN: a verifier is generated, compiled and run over every reachable state."""

from __future__ import annotations

import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.models.variants import Variant

MODELS = Path(__file__).resolve().parent
NEEDS = {"spin": "spin", "gcc": "gcc"}
"""Commands, and the Debian packages that have them."""
SECONDS, MEGABYTES, DEPTH = 100, 6000, 500_000
"""For all that is done about one variant: less than the time for which pytest lets a test hang."""
KNOWN = re.compile(r"^#ifn?def (\w+)", re.MULTILINE)
CUT_SHORT = ("max search depth too small", "out of memory", "Search not completed")


@dataclass(frozen=True)
class Result:
    """Whether the claim ``holds``, after how many ``states``; ``why`` it does not, and the steps that lead there."""

    holds: bool
    states: int
    why: str = ""
    trail: str = ""


class Undecided(Exception):
    """The search was not finished, so that no error says nothing; or another model would be searched than is meant."""


def is_as_expected(variant: Variant, result: Result) -> bool:
    """Whether it holds as it should, or fails by what is wrong with it: any other error says nothing of that."""
    return result.holds is variant.holds and result.why.startswith(variant.why)


def unknown(variant: Variant) -> set[str]:
    """What it defines and its model never asks for: misspelt, it would be the protocol itself."""
    asked = KNOWN.findall((MODELS / f"{variant.model}.pml").read_text())
    return {one.partition("=")[0] for one in variant.defined.split()}.difference(asked)


def check(variant: Variant) -> Result:
    """Raises Undecided, and subprocess.SubprocessError where a model does not even compile."""
    if names := unknown(variant):
        raise Undecided(f"{variant}: {variant.model}.pml asks for no {', '.join(sorted(names))}")
    ends = time.monotonic() + SECONDS
    with TemporaryDirectory(prefix="spin-") as name:
        folder = Path(name)
        defined = [f"-D{one}" for one in variant.defined.split()]
        model = str(MODELS / f"{variant.model}.pml")
        _call(folder, ends, "spin", "-a", *defined, model)
        _call(folder, ends, "gcc", "-O2", "-w", "-DNFAIR=3", f"-DMEMLIM={MEGABYTES}", "-o", "pan", "pan.c")
        # -a: also endless runs that break the claim. -f: no process that could go on is passed by for ever.
        told = _call(folder, ends, "./pan", "-a", "-f", f"-m{DEPTH}", "-N", variant.claim)
        errors = re.search(r"errors: (\d+)", told)
        if errors is None or (errors[1] == "0" and any(text in told for text in CUT_SHORT)):
            raise Undecided(f"{variant}: {told[-2000:]}")
        states = re.search(r"([\d.e+]+) states, stored", told)
        count = int(float(states[1])) if states else 0
        if errors[1] == "0":
            return Result(True, count)
        [trail, *_] = folder.glob("*.trail")
        steps = _call(folder, ends, "spin", "-t", *defined, "-k", trail.name, "-p", "-g", model)
        why = re.search(r"^pan:1: (.*)", told, re.MULTILINE)
        return Result(False, count, " ".join(why[1].split()) if why else "", steps)


def _call(folder: Path, ends: float, *command: str) -> str:
    """What it prints. A verifier that finds an error says so and ends well."""
    left = max(ends - time.monotonic(), 0)
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=left)
    except subprocess.TimeoutExpired:
        raise Undecided(f"{' '.join(command)} was not over {SECONDS} s after the first command began") from None
    if done.returncode:
        raise Undecided(f"{' '.join(command)} ended with {done.returncode}: {done.stdout[-1000:]}{done.stderr[-1000:]}")
    return done.stdout
