"""Runs the tests of this folder in a Chromium of this machine: `python -m tests.browser [pytest's arguments]`.

In the one without windows where there is one: the same engine, for two thirds of the CPU.

Without arguments all of them, in four parts, two at a time.

DURABLE_TEST_BROWSER names it where it is not on the PATH. Without one this fails, and so it does where all of them,
without arguments, take much longer than they may.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

from tests.run import Part, run_parts, summary

FOLDER = Path(__file__).resolve().parent
BACKEND = "postgres-redis"
APART = [
    ["test_lists.py", "test_operator.py", "test_overview.py", "test_schedules.py"],
    ["test_every_page.py"],
    ["test_other_looks.py", "test_themes.py"],
]
"""Files that make a part each, beside all others together: one part was as long as the whole may take. A browser waits
for its server, and that for the browser: two of both fill two cores."""
PARTS = [[str(FOLDER / file) for file in part] for part in APART]
REST = [str(FOLDER), *(f"--ignore={file}" for part in PARTS for file in part)]
WHOLE: list[Part] = [(BACKEND, selection) for selection in (REST, *PARTS)]
SIDE_BY_SIDE = 2
GOAL, MOST = 180, 480
"""Seconds for all of them: what is promised, and what a machine may take that is half as fast as ours, or less. In
one hour of one machine it took 226 in a Chromium with windows and 132 in one without."""
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def main(arguments: list[str]) -> int:
    if (browser := find()) is None:
        print(
            f"make test-browser: there is no browser here ({', '.join(NAMES)}). On Debian: apt-get install {NAMES[0]}. "
            "Elsewhere DURABLE_TEST_BROWSER=/path/to/chromium names one.",
            file=sys.stderr,
        )
        return 1
    os.environ["DURABLE_TEST_BROWSER"] = browser
    began = time.monotonic()
    parts = [(BACKEND, [str(FOLDER)])] if arguments else WHOLE
    status, total = run_parts(parts, arguments, SIDE_BY_SIDE)
    status, told = judge(status, time.monotonic() - began, is_whole=not arguments)
    print(f"{summary(total)}, {told}")
    return status


def judge(status: int, seconds: float, *, is_whole: bool) -> tuple[int, str]:
    """The exit status, and what is said of the time. Who asks for something in particular is held to none."""
    told = f"make test-browser: {seconds:.0f} s"
    if not is_whole:
        return status, told
    if seconds <= GOAL:
        return status, f"{told} of {GOAL}"
    if seconds <= MOST:
        return status, f"{told}, {seconds - GOAL:.0f} more than the {GOAL} that it is to take"
    return status or 1, f"{told}: it is to take {GOAL}, and fails from {MOST} on"


def find() -> str | None:
    """The path of a browser, or None."""
    if named := os.environ.get("DURABLE_TEST_BROWSER"):
        return shutil.which(named)
    return next((path for name in NAMES if (path := shutil.which(name))), None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
