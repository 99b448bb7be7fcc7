"""The mutants still apply to today's engine, and so many have to die."""

from __future__ import annotations

import ast
import difflib
import py_compile
from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.__main__ import line, main, passes
from tests.mutants.copying import ROOT, Copy
from tests.mutants.every import MUTANTS
from tests.mutants.making import a_mutant
from tests.mutants.mutant import ENGINE, POSTGRES, REDIS, SQLITE, DoesNotApply, Mutant
from tests.mutants.trying import KILLED, SURVIVED, UNFIT, Verdict

every = pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
LEAST = 83
"""As many as there are: none goes unseen. It grows with the list."""


# --- the list --------------------------------------------------------------------------------


def test_there_are_enough_and_each_has_a_name_of_its_own() -> None:
    names = Counter(mutant.name for mutant in MUTANTS)
    assert len(names) == len(MUTANTS) >= LEAST
    assert {mutant.backend for mutant in MUTANTS} == {SQLITE, POSTGRES, REDIS}


@every
def test_it_applies_to_one_line_and_is_other_code(mutant: Mutant) -> None:
    source = (ROOT / ENGINE / mutant.file).read_text()
    mutated = mutant.applied(source)
    changes = [one[0] for one in difflib.ndiff(source.splitlines(), mutated.splitlines()) if one[0] in "+-"]
    assert Counter(changes)["-"] == 1
    assert Counter(changes)["+"] <= 1
    compile(mutated, mutant.file, "exec")
    assert ast.dump(ast.parse(mutated)) != ast.dump(ast.parse(source)), "nothing but a comment has changed"


@every
def test_the_tests_that_have_to_notice_are_there(mutant: Mutant) -> None:
    assert mutant.tests
    for test in mutant.tests:
        file, _, within = test.partition("::")
        name = within.rpartition("::")[2]
        assert (ROOT / file).is_file(), test
        assert not name or f"def {name.partition('[')[0]}(" in (ROOT / file).read_text(), test
        if "/test_postgres_" in file:
            assert mutant.backend == POSTGRES, f"{file} is not collected on {mutant.backend}"


@every
def test_it_says_what_it_breaks(mutant: Mutant) -> None:
    assert mutant.breaks.endswith(".")
    assert mutant.breaks.count(". ") == 0, "one sentence"


# --- applying --------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["b > a", "a < b and a < b"], ids=["gone", "twice"])
def test_what_does_not_stand_there_once_is_refused(source: str) -> None:
    with pytest.raises(DoesNotApply, match=r"part\.py"):
        a_mutant().applied(source)


def test_a_copy_bears_it_for_a_while_and_its_bytecode_not_longer(tmp_path: Path) -> None:
    file = tmp_path / ENGINE / "part.py"
    file.parent.mkdir()
    file.write_text("less = 1 < 2\n")
    bytecode = file.parent / "__pycache__"
    with Copy(tmp_path).bearing(a_mutant("1 < 2", "1 > 2")):
        assert file.read_text() == "less = 1 > 2\n"
        stale = compiled(file)
    assert file.read_text() == "less = 1 < 2\n"
    assert not stale.exists()
    assert not list(bytecode.iterdir())


def compiled(file: Path) -> Path:
    return Path(py_compile.compile(str(file), doraise=True) or "")


def test_a_test_that_raises_leaves_no_mutant_behind(tmp_path: Path) -> None:
    file = tmp_path / ENGINE / "part.py"
    file.parent.mkdir()
    file.write_text("a < b")
    with pytest.raises(KeyboardInterrupt), Copy(tmp_path).bearing(a_mutant()):
        raise KeyboardInterrupt
    assert file.read_text() == "a < b"


# --- the sum ---------------------------------------------------------------------------------


def of_kinds(killed: int, survived: int, unfit: int = 0) -> list[Verdict]:
    kinds = [KILLED] * killed + [SURVIVED] * survived + [UNFIT] * unfit
    return [Verdict(kind) for kind in kinds]


@pytest.mark.parametrize(
    ("verdicts", "is_explained", "expected"),
    [
        (of_kinds(25, 0), False, True),
        (of_kinds(24, 1), True, True),
        (of_kinds(24, 1), False, False),
        (of_kinds(23, 2), True, False),
        (of_kinds(48, 2), True, True),
        (of_kinds(99, 0, 1), True, False),
        ([], True, False),
    ],
    ids=["all", "one, explained", "one, unexplained", "two of 25", "two of 50", "one says nothing", "not begun"],
)
def test_how_many_have_to_die(verdicts: list[Verdict], is_explained: bool, expected: bool) -> None:
    mutant = a_mutant(explained="nobody can tell" if is_explained else "")
    assert passes([mutant] * len(verdicts), verdicts) is expected


def test_a_line_says_why() -> None:
    assert "no test notices" in line(a_mutant(), Verdict(SURVIVED))
    assert "nobody can tell" in line(a_mutant(explained="nobody can tell"), Verdict(SURVIVED))
    assert "test_x it never could work" in line(a_mutant(), Verdict(UNFIT, "test_x", "it never could work"))


def test_the_list_is_shown_and_an_unknown_name_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", MUTANTS[0].name]) == 0
    assert MUTANTS[0].breaks in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["nobody"])
