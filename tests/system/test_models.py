"""The protocols in every order of events (tests/models): what is right holds, and what is wrong keeps failing."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.models.checking import Result, check, is_as_expected
from tests.models.variants import VARIANTS, Variant

SIDE_BY_SIDE = 2


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest) -> Iterator[dict[Variant, Future[Result]]]:
    """Of those variants that are asked for in this run, two at a time."""
    params = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    asked = [given["variant"] for given in params if "variant" in given]
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        yield {variant: pool.submit(check, variant) for variant in asked}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_a_variant_comes_out_as_it_should(results: dict[Variant, Future[Result]], variant: Variant) -> None:
    result = results[variant].result()
    assert is_as_expected(variant, result), result.why + result.trail[-5000:]
    assert result.states > 1


def test_every_model_has_variants_that_hold_and_variants_that_fail() -> None:
    assert {(variant.model, variant.holds) for variant in VARIANTS} == {
        (model, holds) for model in ("lease", "wake", "limits") for holds in (True, False)
    }
    assert len({str(variant) for variant in VARIANTS}) == len(VARIANTS)
