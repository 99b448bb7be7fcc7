"""What the pages say of the supply chain (S18), of whom to tell (S20) and of the doors that are tried is what stands in
the project."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.docs.figures import Figure, wrong
from tests.hostile import test_addresses, test_commands, test_errors, test_names, test_values, test_worker
from tests.hostile.app.workflows import NO_NAMES, RAISING, RAISING_ASYNC
from tests.hostile.corpus import ERRORS, TYPED

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def names(requirements: list[str]) -> set[str]:
    return {re.match(r"[\w-]+", one).group().lower() for one in requirements}  # type: ignore[union-attr]


def test_the_page_names_what_is_needed_at_run_time_and_no_more() -> None:
    page = (ROOT / "docs" / "security.md").read_text()
    [needed] = re.findall(r"At run time these are needed: (.*?) and below Python 3\.14 (\w+)", page, re.DOTALL)
    assert {*re.findall(r"[\w-]+", needed[0].lower()), needed[1]} == names(PROJECT["dependencies"])
    for extra, requirements in PROJECT["optional-dependencies"].items():
        if extra in ("postgres", "fast"):
            [named] = re.findall(rf"`{extra}` adds (\w+)", page)
            assert {named} == names(requirements)


def test_who_finds_something_learns_whom_to_tell_and_when_he_hears_of_it() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    assert "Report a vulnerability" in text
    promised = re.findall(r"^\| (you hear|a release)[^|]*\| (\d+ (?:hours|days)) \|$", text, re.MULTILINE)
    assert [within for _, within in promised] == ["48 hours", "7 days", "14 days"]
    released = re.findall(r"^## \[(\d+\.\d+)\.\d+\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert f"| {released[0]} | yes |" in text, "the newest release gets fixes"


MADE = len(test_worker.MADE) + len(test_worker.MADE_ASYNC)
RAISED = len(test_errors.RAISED | test_worker.RAISED)
PLACES = len(test_errors.PLACES) + len(test_errors.PLACES_ASYNC)
RAISED_EVERYWHERE = (len(test_worker.RAISED), len(RAISING) + len(RAISING_ASYNC))
TOO_LONG = TYPED.keys() - test_addresses.SENDABLE.keys()

DOORS = [
    ("all values at # places of a real worker, # at each of the others", (MADE, len(test_values.SOME))),
    ("# exceptions at # places, # of them at all # of a real worker", (RAISED, PLACES, *RAISED_EVERYWHERE)),
    ("all # are put into words", (len(ERRORS),)),
    ("# things that are none", (len(NO_NAMES),)),
    ("# of the texts and things", (len(test_names.IN_WORKFLOWS),)),
    ("all texts, expressions and zones but #, which is too long", (len(TOO_LONG),)),
    ("| # of the texts |", (len(test_addresses.FEW),)),
    ("# of the texts, and bytes that are no text", (len(test_commands.WORDS),)),
]


@pytest.mark.parametrize(("words", "true"), DOORS, ids=lambda given: given if isinstance(given, str) else "")
def test_how_much_goes_through_a_door_is_what_the_page_says(words: str, true: tuple[float, ...]) -> None:
    told = wrong(Figure("docs/security.md", words, true, "tests/hostile"))
    assert not told, "\n".join(told)
