"""A variant is what it says it is, and a wrong one fails by what is wrong with it. `tests/system` searches them all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.models.checking import Result, Undecided, check, is_as_expected, unknown
from tests.models.variants import BROKEN, NEVER, VARIANTS, Variant

RIGHT = next(variant for variant in VARIANTS if variant.holds)
WRONG = next(variant for variant in VARIANTS if variant.why == BROKEN)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_its_model_asks_for_all_that_it_defines(variant: Variant) -> None:
    assert unknown(variant) == set()


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_a_wrong_one_says_by_what_it_fails(variant: Variant) -> None:
    assert bool(variant.why) is not variant.holds


def test_what_is_misspelt_is_told_and_not_searched() -> None:
    misspelt = replace(WRONG, defined=f"{WRONG.defined} FENSE=0")
    assert unknown(misspelt) == {"FENSE"}
    with pytest.raises(Undecided, match=r"lease\.pml asks for no FENSE"):
        check(misspelt)


def test_another_error_than_its_own_is_none() -> None:
    assert is_as_expected(WRONG, Result(False, 7, f"{BROKEN} !(stale_write))) (at depth 52)"))
    for why in ("", NEVER, "assertion violated (entries<=1) (at depth 3)"):
        assert not is_as_expected(WRONG, Result(False, 7, why))
    assert not is_as_expected(WRONG, Result(True, 7))
    assert is_as_expected(RIGHT, Result(True, 7))
    assert not is_as_expected(RIGHT, Result(False, 7, NEVER))
