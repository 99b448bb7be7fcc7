"""The tour shows the pictures that `benchmarks/screens.py` keeps, each with words for who cannot see it."""

from __future__ import annotations

import re

import pytest

from benchmarks.screens import INTO, TALLEST, TOUR, VARIANTS, kept, nearest, untold

MOST_KB = 3_000
PICTURE = re.compile(r'!\[([^\]]*)\]\(screens/([^)]+)\)|<img src="screens/([^"]+)"[^>]* alt="([^"]*)"')


def shown() -> dict[str, str]:
    """What is said of each picture."""
    return {found[2] or found[3]: found[1] or found[4] for found in PICTURE.finditer(TOUR.read_text())}


def test_the_tour_shows_what_is_kept() -> None:
    assert set(shown()) == kept()
    assert TOUR.read_text().count("screens/") == len(kept())


def test_each_picture_is_told_in_words() -> None:
    assert {name for name, words in shown().items() if len(words) < 40} == set()


def test_what_is_on_a_picture_and_not_in_the_tour_is_noticed() -> None:
    assert untold(["1 run is \n blocked", "2 runs are blocked"]) == {"2 runs are blocked"}
    [(count, text)] = set(re.findall(r"(\d+)( runs have failed in the last day)", TOUR.read_text()))
    assert untold([count + text]) == set()
    assert untold([count[1:] + text]) == {count[1:] + text}


def test_the_pictures_are_there_and_small() -> None:
    files = list(INTO.iterdir())
    assert {file.name for file in files} == kept()
    assert sum(file.stat().st_size for file in files) < MOST_KB * 1_000


def test_a_phone_is_one_and_not_a_narrow_window() -> None:
    phones = {name for name, how in VARIANTS.items() if how["viewport"]["width"] < 500}
    assert {VARIANTS[name]["color_scheme"] for name in phones} == {"light", "dark"}
    for name in phones:
        assert VARIANTS[name]["is_mobile"] and VARIANTS[name]["has_touch"], name
        assert any(picture.endswith(f"-{name}.png") for picture in kept()), name
    assert set(TALLEST) == set(VARIANTS)


@pytest.mark.parametrize(("colour", "place"), [((255, 255, 255), 0), ((250, 250, 251), 0), ((9, 1, 0), 1)])
def test_a_colour_becomes_the_nearest(colour: tuple[int, ...], place: int) -> None:
    assert nearest([(255, 255, 255), (0, 0, 0)], colour) == place
