"""``python -m benchmarks.suite``: every figure, written to ``benchmarks/results.json``; ratios are printed first.

``--systems dbos,limits``, ``--variants sync`` and ``--scenarios S1,S2`` leave out the others, ``--rest`` measures what
takes longer, ``--resume`` goes on where a run was stopped and adds to what it has, ``--part 0.02`` tries it all with a
fiftieth of the runs. Exit status 1 where a goal is missed, 2 where figures would be of two machines, servers or states
of the code.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .bench import Bench
from .client import Missing
from .environments import python_of
from .goals import judge, unmeasured
from .ledger import Incomparable, Ledger
from .pace import Pace
from .page import RESULTS, write
from .prepared import Unprepared, prepared
from .repeating import measured
from .report import report
from .rest import REST
from .rest import measured as rest_measured
from .sample import Sample
from .scenarios import OF_FLOOR, SCENARIOS
from .stage import Stage, stage
from .systems import FLOOR, OWN, Participant, participants

NAMED = {"S1": "doors", "S2": "drains", "S3": "drains", "S9": "drains"}
"""What a system calls the variants that are measured in a scenario; in all others it is ``variants``."""
DRAINS = ("sync", "async")
AGAIN = {
    "S0": {FLOOR: ("django",)},
    "S1": {FLOOR: ("django",), OWN: ("sync",), "dbos": ("sync",)},
    "S2": {OWN: DRAINS, "dbos": ("sync",), "dramatiq": ("best",)},
    "S3": {OWN: DRAINS, "dbos": ("sync",)},
    "S4": {FLOOR: ("django",), OWN: ("sync", "async")},
    "S6": {FLOOR: ("django",), OWN: ("sync",), "dbos": ("sync-direct",)},
    "S9": {OWN: ("sync",), "dbos": ("sync",)},
}
"""Which variants of whom are measured again at the end of a scenario: ours that goals are held against, what all are
compared with, and those of others that come nearest to a goal."""
ONLY_FLOOR = "S0"
"""What ``FLOOR`` is measured in alone."""


def main() -> int:
    options = read_options()
    is_resumed = options.resume and options.results.exists()
    try:
        ledger = Ledger.resume(options.results) if is_resumed else Ledger.new(options.results)
        ledger.part = "bench-all" if REST.keys() >= set(options.scenarios) else "bench"
        measure_all(ledger, options)
    except Incomparable as error:
        print(error, file=sys.stderr)
        return 2
    found = judge(ledger)
    ledger.save()
    if options.results == RESULTS:
        write(ledger)
    print(report(ledger))
    if left := unmeasured(ledger):
        print(f"Not measured: {', '.join(left)}")
    # Who names a part of it asks for no verdict on the rest.
    is_part = bool(options.systems or options.variants or options.scenarios != list(SCENARIOS))
    return 0 if all(verdict.is_met for verdict in found) and (is_part or not left) else 1


def measure_all(ledger: Ledger, options: argparse.Namespace) -> None:
    """Raises Incomparable."""
    pace = Pace(options.minutes)
    taking_part = participants(options.systems or _named_by(options.scenarios))
    pythons = {participant: python_of(participant) for participant in taking_part}
    with stage() as scene:
        ledger.served_by(scene.versions())
        told = {participant: _describe(scene, participant, pythons[participant]) for participant in taking_part}
        for participant in taking_part:
            if not participant.is_own:
                ledger.installed(participant.name, told[participant]["versions"])
        # By turns: what the machine does besides falls on all of them alike.
        planned = [
            (participant, variant, scenario, visit)
            for scenario in options.scenarios
            for participant, visit in visits(scenario, taking_part)
            for variant in _variants(scenario, participant, told[participant], visit)
            if not options.variants or variant in options.variants
            if not ledger.is_done(scenario + visit, participant.name, variant)
        ]
        pace.begin(len(planned))
        for participant, variant, scenario, visit in planned:
            measure(
                scene,
                participant,
                variant,
                pythons[participant],
                scenario,
                visit,
                ledger,
                options,
                is_late=pace.is_late,
            )
            pace.visited()


def visits(scenario: str, taking_part: Sequence[Participant]) -> list[tuple[Participant, str]]:
    """Who is measured after whom in a scenario, and what it is called when somebody comes again.

    Those with which all the others are compared begin and end it, and who is nearest to a goal comes once more with
    them: a machine that others use was seen to be a third slower for a minute, and both sides of a ratio are to be of
    the same minutes.
    """
    is_compared = len({participant.is_own for participant in taking_part}) > 1
    again = [one for one in taking_part if is_compared and one.name in AGAIN.get(scenario, ())]
    return [*((one, "") for one in taking_part), *((one, " again") for one in again)]


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.suite", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--systems", type=lambda text: text.split(","))
    parser.add_argument("--scenarios", type=_scenarios, default=list(SCENARIOS))
    parser.add_argument("--rest", action="store_const", dest="scenarios", const=list(REST), help=", ".join(REST))
    parser.add_argument("--variants", type=lambda text: text.split(","))
    parser.add_argument("--repetitions", type=int, default=3, help="after a first one that does not count")
    parser.add_argument("--part", type=float, default=1.0, help="only this part of the runs (of 1)")
    parser.add_argument("--patience", type=float, default=20.0, help="seconds to wait for a quiet machine each time")
    parser.add_argument("--minutes", type=float, help="who is late makes fewer repetitions, to end in so many")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--resume", action="store_true")
    return parser.parse_args()


def measure(
    scene: Stage,
    participant: Participant,
    variant: str,
    python: Path,
    scenario: str,
    visit: str,
    ledger: Ledger,
    options: argparse.Namespace,
    *,
    is_late: bool = False,
) -> None:
    """One scenario of one system in one of its variants, on a database of its own. ``visit`` as in ``visits``."""
    try:
        with prepared(
            scene, participant, python, variant, part=options.part, patience=options.patience, is_late=is_late
        ) as bench:
            repeat(bench, scenario, ledger, participant.name, variant, options.repetitions)
    except Missing:
        # Not every system has everything.
        pass
    except Unprepared:
        print(f"== {participant.name} {variant} is left out: it could not be prepared (see above)", flush=True)
        return
    except (RuntimeError, OSError) as error:
        # One that ends or hangs must not cost the figures of all others; goals that need it count as not measured.
        if participant.is_own:
            raise
        print(f"== {participant.name} {variant} gets no further in {scenario}{visit}: {error}", flush=True)
        return
    ledger.finish(scenario + visit, participant.name, variant)


def repeat(bench: Bench, scenario: str, ledger: Ledger, system: str, variant: str, repetitions: int) -> None:
    """All of it counts once all of it is there."""
    if scenario in REST:
        each_time = rest_measured(bench, scenario, repetitions + 1)
    else:
        each_time = measured(bench, (OF_FLOOR if bench.is_floor else SCENARIOS)[scenario], repetitions + 1)
    kept: list[Sample] = []
    for repetition, samples in enumerate(each_time):
        for sample in samples:
            counts = repetition > 0 or not repetitions
            mark = "" if counts else " (first, does not count)"
            print(f"{sample.figure:20} {system} {variant}: {sample.value:,.2f}{mark}", flush=True)
            if counts:
                kept.append(sample)
    for sample in kept:
        ledger.add(system, variant, sample)


def _scenarios(text: str) -> list[str]:
    if unknown := sorted(set(found := text.split(",")) - SCENARIOS.keys() - REST.keys()):
        raise argparse.ArgumentTypeError(f"no such scenario: {', '.join(unknown)}")
    return found


def _named_by(scenarios: Sequence[str]) -> list[str] | None:
    """Who takes part in them: in the rest not everybody does. None: all."""
    if not REST.keys() >= set(scenarios):
        return None
    return [OWN, *{peer: None for scenario in scenarios for peer in REST[scenario].peers}]


def _variants(scenario: str, participant: Participant, told: dict[str, Any], visit: str = "") -> Sequence[str]:
    """None where it takes no part: to prepare it only to hear so takes seconds each time."""
    if scenario in REST:
        rest = REST[scenario]
        return rest.variants if participant.name == OWN else rest.peers.get(participant.name, ())
    if participant.name == FLOOR and scenario not in OF_FLOOR:
        return ()
    if participant.name != FLOOR and scenario == ONLY_FLOOR:
        return ()
    found: Sequence[str] = told[NAMED.get(scenario, "variants")]
    return [variant for variant in found if variant in AGAIN[scenario][participant.name]] if visit else found


def _describe(scene: Stage, participant: Participant, python: Path) -> dict[str, Any]:
    """Its ``variants``, those that some scenarios have in their place (``NAMED``), and the ``versions`` of what is
    installed of it."""
    environment = scene.environment("postgres", "")
    told = subprocess.run(
        [python, participant.script, "describe"], env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return dict(json.loads(told.stdout))


if __name__ == "__main__":
    sys.exit(main())
