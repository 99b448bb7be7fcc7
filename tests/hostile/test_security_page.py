"""S18 and S20: what the pages say of the supply chain and of whom to tell is what stands in the project."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

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
