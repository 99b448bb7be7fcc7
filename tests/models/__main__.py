"""Checks the variants whose names contain all of the arguments: `python -m tests.models [part of a name …]`."""

from __future__ import annotations

import os
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from tests.models.checking import NEEDS, Undecided, check, is_as_expected
from tests.models.variants import VARIANTS, Variant


def main(parts: list[str]) -> int:
    if missing := [package for command, package in NEEDS.items() if shutil.which(command) is None]:
        print(
            f"The models need {' and '.join(missing)}. On Debian: apt-get install {' '.join(missing)}", file=sys.stderr
        )
        return 1
    chosen = [variant for variant in VARIANTS if all(part in str(variant) for part in parts)]
    began = time.monotonic()
    with ThreadPoolExecutor(int(os.environ.get("JOBS", "2"))) as pool:
        wrong = [variant for variant, is_right in zip(chosen, pool.map(tell, chosen), strict=True) if not is_right]
    print(f"{len(chosen) - len(wrong)} of {len(chosen)} as expected, {time.monotonic() - began:.0f} s")
    return int(bool(wrong) or not chosen)


def tell(variant: Variant) -> bool:
    """Print what came out; whether that is as expected."""
    try:
        result = check(variant)
    except Undecided as error:
        print(f"{variant!s:55} undecided: {error}", flush=True)
        return False
    is_right = is_as_expected(variant, result)
    verdict = "holds" if result.holds else "fails"
    expected = "hold" if variant.holds else f"fail by {variant.why}"
    told = "" if is_right else f"  *** should {expected} ***\n{result.trail[-3000:]}"
    print(f"{variant!s:55} {verdict} {result.states:>9} states  {result.why}{told}", flush=True)
    return is_right


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
