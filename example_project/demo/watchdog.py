"""A process that outlives the demo by a moment: whatever happens to the demo, its process groups are ended.

It reads ``+<group>`` and ``-<group>`` from its standard input. The end of the input means that the demo is gone, and
a pipe ends however its writer died.
"""

from __future__ import annotations

import argparse
import os
import select
import signal
import sys
import time

GRACE_SECONDS = 3.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=float, help="end everything after so many seconds, the demo too")
    limit = parser.parse_args().limit
    demo = os.getppid()
    groups, is_over_time = watch(sys.stdin.fileno(), limit)
    if is_over_time:
        print("watchdog: the time is up", file=sys.stderr, flush=True)
    end(groups)
    # The parent is the same process only while it lives; afterwards its number may be anybody's.
    if is_over_time and os.getppid() == demo:
        os.kill(demo, signal.SIGTERM)


def watch(pipe: int, limit: float | None) -> tuple[set[int], bool]:
    """Keep the book until the pipe ends or time is up: the groups that are left, and which of the two it was."""
    groups: set[int] = set()
    rest = b""
    until = None if limit is None else time.monotonic() + limit
    while True:
        wait = None if until is None else max(0.0, until - time.monotonic())
        if not select.select([pipe], [], [], wait)[0]:
            return groups, True
        chunk = os.read(pipe, 4096)
        if not chunk:
            return groups, False
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            (groups.add if line.startswith(b"+") else groups.discard)(int(line[1:]))


def end(groups: set[int]) -> None:
    """Ask each group to end, and after a moment end it."""
    for group in groups:
        _signal(group, signal.SIGTERM)
    until = time.monotonic() + GRACE_SECONDS
    while time.monotonic() < until and any(_signal(group, 0) for group in groups):
        time.sleep(0.05)
    for group in groups:
        _signal(group, signal.SIGKILL)


def _signal(group: int, number: int) -> bool:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


if __name__ == "__main__":
    main()
