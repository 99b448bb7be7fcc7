"""Every clause of docs/behaviours.md is shown by a test, or says what became of it; every mark names a clause."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.behaviours.reading import PAGE, clauses, marks, marks_of

OPEN: set[str] = set()
"""Clauses that are being made. Whoever marks the test of one takes it out here and on the page."""

LATER = {"DATA-01g", "DATA-01h", "DATA-01i", "DATA-02a", "DATA-02b"}
"""Clauses that are not made yet, each by a decision: a clause that loses its test does not become one of them."""

CLAUSES = {clause.id: clause for clause in clauses(PAGE.read_text())}
MARKS = marks()


def test_each_clause_has_an_id_of_its_own() -> None:
    counted = Counter(clause.id for clause in clauses(PAGE.read_text()))
    assert len(counted) > 150
    assert [clause_id for clause_id, count in counted.items() if count > 1] == []


def test_the_clauses_of_a_line_go_from_a_to_z_without_a_gap() -> None:
    letters: dict[str, str] = {}
    for clause_id in CLAUSES:
        letters[clause_id[:-1]] = letters.get(clause_id[:-1], "") + clause_id[-1]
    assert {line: found for line, found in letters.items() if found != "abcdefghijklmnopqrstuvwxyz"[: len(found)]} == {}


def test_every_mark_is_on_a_test_and_in_plain_words() -> None:
    assert [f"{mark.place}: {mark.problem}" for mark in MARKS if mark.problem] == []


def test_every_mark_names_a_clause() -> None:
    assert [f"{mark.place}: {name}" for mark in MARKS for name in mark.ids if name not in CLAUSES] == []


def test_every_clause_is_shown_by_a_test_or_says_what_became_of_it() -> None:
    shown = {name for mark in MARKS for name in mark.ids}
    assert [name for name, clause in CLAUSES.items() if not clause.ending and name not in shown] == []


def test_a_clause_that_ends_otherwise_has_no_test() -> None:
    """Else the page does not say any more what is the case."""
    shown = {name for mark in MARKS for name in mark.ids}
    assert [name for name, clause in CLAUSES.items() if clause.ending and name in shown] == []


def test_what_replaces_a_clause_is_told_in_a_sentence() -> None:
    told = {name: clause.by for name, clause in CLAUSES.items() if clause.ending == "replaced"}
    assert [name for name, by in told.items() if len(by.split()) < 8 or not by.endswith(".")] == []


def test_only_what_is_being_made_is_open() -> None:
    assert {name for name, clause in CLAUSES.items() if clause.ending == "open"} == OPEN


def test_only_what_was_decided_so_comes_later() -> None:
    assert {name for name, clause in CLAUSES.items() if clause.ending == "later"} == LATER


# --- what is looked at with ------------------------------------------------------------------

PLANTED = """
import pytest

@pytest.mark.behaviour("RUN-01a", "RUN-01b")
@pytest.mark.parametrize("number", [1])
def test_good(number): ...

class TestGroup:
    @pytest.mark.behaviour("RUN-02a")
    async def test_method(self): ...
"""


def test_marks_are_found_on_functions_and_methods() -> None:
    found = marks_of(PLANTED, "tests/test_planted.py")
    assert [(mark.place, mark.ids, mark.problem) for mark in found] == [
        ("tests/test_planted.py::test_good", ("RUN-01a", "RUN-01b"), ""),
        ("tests/test_planted.py::test_method", ("RUN-02a",), ""),
    ]


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("@pytest.mark.behaviour('RUN-01a')\ndef helper(): ...", "tests/test_planted.py"),
        ("def outer():\n    @pytest.mark.behaviour('RUN-01a')\n    def test_inner(): ...", "tests/test_planted.py"),
        (
            "class Helper:\n    @pytest.mark.behaviour('RUN-01a')\n    def test_method(self): ...",
            "tests/test_planted.py",
        ),
        ("pytestmark = pytest.mark.behaviour('RUN-01a')", "tests/test_planted.py"),
        ("@pytest.mark.behaviour\ndef test_bare(): ...", "tests/test_planted.py"),
        ("@pytest.mark.behaviour()\ndef test_empty(): ...", "tests/test_planted.py"),
        ("@pytest.mark.behaviour(ID)\ndef test_name(): ...", "tests/test_planted.py"),
        ("@pytest.mark.behaviour(id='RUN-01a')\ndef test_keyword(): ...", "tests/test_planted.py"),
        ("@pytest.mark.behaviour('RUN-01a')\ndef test_lost(): ...", "tests/planted.py"),
    ],
)
def test_a_mark_that_nothing_would_run_is_a_problem(source: str, name: str) -> None:
    assert [bool(mark.problem) for mark in marks_of(source, name)] == [True]


def test_clauses_are_read_over_several_lines() -> None:
    one, two, three = clauses("""# Page
- **RUN-01a** First, over
  two lines.
- **RUN-01b** Second. *Replaced:* by what
  is better.

## Next

- **RUN-02a** Third. *Later.*
""")
    assert (one.id, one.text, one.ending) == ("RUN-01a", "First, over two lines.", "")
    assert (two.text, two.ending, two.by) == ("Second.", "replaced", "by what is better.")
    assert (three.text, three.ending) == ("Third.", "later")


@pytest.mark.parametrize("wrong", ["RUN-1a", "RUN-01", "run-01a", "RUN-01A"])
def test_an_id_of_another_form_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="no id"):
        clauses(f"- **{wrong}** Something.\n")


@pytest.mark.parametrize(
    "line",
    [
        "  - **RUN-01b** Indented.",
        "* **RUN-01b** With a star.",
        "+ **RUN-01b** With a plus.",
        "-  **RUN-01b** With two spaces.",
        "1. **RUN-01b** Numbered.",
        "**RUN-01b** Bare.",
        "| **RUN-01b** | In a table. |",
        "  and **RUN-01b** in the midst of another.",
    ],
)
def test_an_id_that_begins_no_clause_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="'RUN-01b' is not at the beginning of a line"):
        clauses(f"- **RUN-01a** Something.\n{line}\n- **RUN-01c** Something else.\n")
