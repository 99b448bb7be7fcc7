"""The figures on the pages are those of what they count, or of what the benchmark measured last."""

from __future__ import annotations

import ast

import pytest

from benchmarks.suite.ledger import Ledger
from benchmarks.suite.page import RESULTS
from tests.chaos.goals import (
    FAULTS_A_MINUTE,
    HIT_AGAIN_PART,
    HITS_A_MINUTE,
    RECOVERIES_A_MINUTE,
    RUNS_A_MINUTE,
    STARVED_AT_ONCE,
    STARVED_PART,
)
from tests.docs.figures import Figure, said, wrong
from tests.docs.reading import ROOT
from tests.faults.floor import recorded
from tests.faults.options import ACTIONS, ALL
from tests.hostile.corpus import CRONS, ERRORS, TEXTS, VALUES, ZONES
from tests.models.variants import VARIANTS
from tests.mutants.every import MUTANTS

RELIABILITY, SECURITY, CONTRIBUTING = "docs/reliability.md", "docs/security.md", "CONTRIBUTING.md"
README, SCALING = "README.md", "docs/scaling.md"
FAULTS = ROOT / "tests" / "faults"
NOTHING = "nothing"
"""What is planted where nothing is to be found."""


def planted() -> set[str]:
    """The faults of the engine that a test plants and asks the enumeration for, by the names of what plants them."""
    names: set[str] = set()
    for file in FAULTS.glob("test_*see*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "found":
                names.add(ast.unparse(node.args[1]))
    return names - {NOTHING}


FLOOR = recorded()
POSTGRES, SQLITE = (sum(FLOOR[backend].values()) for backend in ("postgres", "sqlite"))
SCENARIOS, CANCELLED = len(ALL), sum(name.endswith("-cancelled") for name in ALL)
KINDS, KINDS_OF_SQLITE = len(ACTIONS), len(ACTIONS) - 1
"""On SQLite no session is terminated."""
EVERYTHING = KINDS * POSTGRES + KINDS_OF_SQLITE * SQLITE
UNTOUCHED = SCENARIOS * (KINDS + KINDS_OF_SQLITE)
BY_FLOOR, BY_OPTIONS = "tests/faults/floor.json", "tests/faults/options.py"
BY_VARIANTS, BY_MUTANTS = "VARIANTS in tests/models/variants.py", "MUTANTS in tests/mutants/every.py"
BY_GOALS, BY_CORPUS = "tests/chaos/goals.py", "tests/hostile/corpus.py"
RIGHT_AND_WRONG = (len(VARIANTS), sum(not variant.holds for variant in VARIANTS))
A_MINUTE = (RUNS_A_MINUTE, FAULTS_A_MINUTE, HITS_A_MINUTE, RECOVERIES_A_MINUTE)
OF_CORPUS = tuple(map(len, (TEXTS, CRONS, ZONES, VALUES, ERRORS)))

FIGURES = [
    Figure(RELIABILITY, "# scenarios of short", (SCENARIOS,), BY_OPTIONS),
    Figure(RELIABILITY, "in # scenarios:", (SCENARIOS,), BY_OPTIONS),
    Figure(CONTRIBUTING, "# scenarios of `def` workflows", (SCENARIOS,), BY_OPTIONS),
    Figure(RELIABILITY, "# of the enumeration's scenarios with a cancellation", (CANCELLED,), BY_OPTIONS),
    Figure(RELIABILITY, "# points on PostgreSQL with Redis and # on SQLite", (POSTGRES, SQLITE), BY_FLOOR),
    Figure(RELIABILITY, "# kinds at # points and # at #", (KINDS, POSTGRES, KINDS_OF_SQLITE, SQLITE), BY_FLOOR),
    Figure(RELIABILITY, "would be #.", (EVERYTHING,), BY_FLOOR),
    Figure(RELIABILITY, "# times a scenario is left untouched", (UNTOUCHED,), BY_OPTIONS),
    Figure(RELIABILITY, "# faults planted in the engine", (len(planted()),), "tests/faults/test_*see*.py"),
    Figure(RELIABILITY, "# variants", RIGHT_AND_WRONG[:1], BY_VARIANTS),
    Figure(RELIABILITY, "# of them are wrong and have to fail", RIGHT_AND_WRONG[1:], BY_VARIANTS),
    Figure(RELIABILITY, "# faults of the engine, one at a time", (len(MUTANTS),), BY_MUTANTS),
    Figure(RELIABILITY, "# of # (2026", (len(MUTANTS), len(MUTANTS)), BY_MUTANTS),
    Figure(
        RELIABILITY,
        "with # acknowledged runs, # faults, # that hit a running step, # recoveries",
        A_MINUTE,
        BY_GOALS,
    ),
    Figure(RELIABILITY, "which no more than # may be", (HIT_AGAIN_PART,), BY_GOALS),
    Figure(RELIABILITY, "may be # in a thousand claims, or # of few", (1000 * STARVED_PART, STARVED_AT_ONCE), BY_GOALS),
    Figure(SECURITY, "of # texts, # cron expressions, # time zones, # values and # exceptions", OF_CORPUS, BY_CORPUS),
]

MEASURED = Ledger.load(RESULTS)
BENCHMARK = "benchmarks/results.json"


def middle(figure: str, variant: str, digits: int, system: str = "django_durable") -> float:
    """The median of all repetitions."""
    return round(MEASURED.series[f"{figure} {system} {variant}"].median, digits)


def measured(figure: str, *variants: str) -> tuple[float, ...]:
    """The medians of this project, in hundreds."""
    return tuple(middle(figure, variant, -2) for variant in variants)


COMMIT = middle("commit_ms", "django", 2, "limits")
LATENCY = tuple(middle("S6_latency_p50_ms", variant, 1) for variant in ("sync", "async"))
DRAMATIQ = middle("S1_enqueue", "best", 0, "dramatiq") / middle("S1_enqueue", "sync", 0)
FIGURES += [
    Figure(README, "where a commit of one row takes # ms", (COMMIT,), BENCHMARK),
    Figure(README, "32 at a time (the default) | # a second", measured("S3_steps", "sync"), BENCHMARK),
    Figure(README, "(`--concurrency 128`) | # a second", measured("S3_steps", "sync-threads"), BENCHMARK),
    Figure(README, "(`--concurrency 200`) | # a second", measured("S3_steps", "async"), BENCHMARK),
    Figure(README, "(`--cpu-affinity`) | # a second", measured("S3_steps", "sync-pinned"), BENCHMARK),
    Figure(README, "(the default: #) | # runs a second", measured("S2_drain", "sync", "sync-pinned"), BENCHMARK),
    Figure(README, "all 200 at a time in each | # runs a second", measured("S2_drain", "async"), BENCHMARK),
    Figure(README, "one by one, from one process | # a second", measured("S1_enqueue", "sync"), BENCHMARK),
    Figure(README, "on an idle system, median | # ms, `async def` # |", LATENCY, BENCHMARK),
    Figure(README, "dramatiq takes # times as many jobs a second", (round(DRAMATIQ, 1),), BENCHMARK),
    Figure(SCALING, "(draining # runs a second,", measured("S2_drain", "sync"), BENCHMARK),
]


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: f"{figure.page} {figure.words}")
def test_a_figure_is_what_is_counted(figure: Figure) -> None:
    assert not (told := wrong(figure)), "\n".join(told)


def test_what_enumeration_makes_and_what_it_leaves_out_are_all_there_is() -> None:
    """How much it leaves out only an enumeration can tell; the rest follows from that."""
    left_out = [said(RELIABILITY, words) for words in ("- # that there are none of", "- # that repeat another one")]
    assert all(left_out), f"{RELIABILITY} does not say how much is left out: {left_out}"
    impossible, repeated = (told[0][1][0] for told in left_out)
    made = EVERYTHING - impossible - repeated
    by = f"{BY_FLOOR}, less the {impossible:,} and {repeated:,} that {RELIABILITY} leaves out"
    sums = [
        Figure(RELIABILITY, "# faults are made at them", (made,), by),
        Figure(RELIABILITY, "these # cases", (made + UNTOUCHED,), by),
        Figure(RELIABILITY, "with them it is # cases", (made + repeated + UNTOUCHED,), by),
        Figure(CONTRIBUTING, "some # cases", (round(made + UNTOUCHED, -2),), by),
    ]
    told = [problem for figure in sums for problem in wrong(figure)]
    assert not told, "\n".join(told)


def test_the_readme_says_when_its_figures_were_measured() -> None:
    words = f"By `make bench` on {MEASURED.machine['begun'][:10]}, "
    assert words in (ROOT / README).read_text(), f"{README} says nowhere {words!r}, by {BENCHMARK}"


# --- what is wrong is told -------------------------------------------------------------------

LEAVES = Figure(RELIABILITY, "# leaves and # boughs", (1_234, 2), "the tree")


def test_what_is_as_it_says_is_not_told() -> None:
    assert wrong(LEAVES, "There are 1,234 leaves\nand two boughs.") == []


def test_a_wrong_figure_is_told_with_its_page_and_what_is_true() -> None:
    text = "1,234 leaves and two boughs; 234 leaves and two boughs; elsewhere 1,234 leaves and Three boughs"
    assert wrong(LEAVES, text) == [
        "docs/reliability.md says '234 leaves and two boughs', and it is 1,234 and 2, by the tree",
        "docs/reliability.md says '1,234 leaves and Three boughs', and it is 1,234 and 2, by the tree",
    ]


def test_a_figure_that_has_gone_from_its_page_is_told() -> None:
    assert wrong(LEAVES, "1,234 leaves and some boughs") == [
        "docs/reliability.md says nowhere '# leaves and # boughs': 1,234 and 2, by the tree"
    ]


def test_what_is_planted_is_told_from_what_is_not() -> None:
    assert {"open_the_fence", "leave_children_alone", "fire_in_pieces"} <= planted()
    assert NOTHING not in planted()
