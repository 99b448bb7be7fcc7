"""The checkout says everywhere which version it is, and that it is none of those that are out."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from django_durable import __version__

ROOT = Path(__file__).resolve().parent.parent
NUMBER = re.compile(r"\d+\.\d+\.\d+")


def released() -> list[str]:
    """The versions of the changelog that are out, the newest first."""
    return re.findall(r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$", ROOT.joinpath("CHANGELOG.md").read_text(), re.M)


def as_numbers(version: str) -> tuple[int, ...]:
    [number] = NUMBER.findall(version)
    return tuple(map(int, number.split(".")))


def test_the_package_and_its_distribution_are_one_version() -> None:
    assert tomllib.loads(ROOT.joinpath("pyproject.toml").read_text())["project"]["version"] == __version__


def test_what_is_being_made_comes_after_all_that_is_out() -> None:
    numbers = [as_numbers(version) for version in released()]
    assert numbers == sorted(numbers, reverse=True)
    assert as_numbers(__version__) > numbers[0] or __version__ == released()[0]


def test_what_is_not_out_yet_stands_first_in_the_changelog() -> None:
    first = re.search(r"^## \[(.+?)\]", ROOT.joinpath("CHANGELOG.md").read_text(), re.M)
    assert first is not None
    assert (first[1] == "Unreleased") == (".dev" in __version__)


def test_every_wheel_that_is_kept_is_of_a_version_that_is_out() -> None:
    kept = {path.name.split("-")[1] for path in ROOT.glob("tests/fixtures/v*/*.whl")}
    assert kept and kept <= set(released())


def test_the_readme_names_the_version() -> None:
    [number] = NUMBER.findall(__version__)
    assert re.search(rf"\b{re.escape(number)}\b", ROOT.joinpath("README.md").read_text().partition("\n## ")[0])
