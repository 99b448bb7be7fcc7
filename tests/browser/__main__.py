"""Runs the tests of this folder in a Chromium of this machine: `python -m tests.browser [pytest's arguments]`.

DURABLE_TEST_BROWSER names it where it is not on the PATH. Without one this fails.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def main(arguments: list[str]) -> int:
    if (browser := find()) is None:
        print(
            f"make test-browser: there is no browser here ({', '.join(NAMES)}). On Debian: apt-get install chromium. "
            "Elsewhere DURABLE_TEST_BROWSER=/path/to/chromium names one.",
            file=sys.stderr,
        )
        return 1
    os.environ["DURABLE_TEST_BROWSER"] = browser
    began = time.monotonic()
    status = int(pytest.main(["-q", str(FOLDER), *arguments]))
    print(f"make test-browser: {time.monotonic() - began:.0f} s")
    return status


def find() -> str | None:
    """The path of a browser, or None."""
    if named := os.environ.get("DURABLE_TEST_BROWSER"):
        return shutil.which(named)
    return next((path for name in NAMES if (path := shutil.which(name))), None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
