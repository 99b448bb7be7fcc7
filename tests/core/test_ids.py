"""Ids, which no two processes may make."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import os
from django_durable.core.ids import uuid7

uuid7()  # What they are drawn from is there before any fork, as in a web server that loads the project first.
for child in range(2):
    if not os.fork():
        print(uuid7().hex, flush=True)
        os._exit(0)
    os.wait()
"""
BY_CHANCE = 16
"""Of the 32 digits those at the end that have nothing of the time."""


def test_two_processes_that_are_forked_from_one_make_different_ids() -> None:
    told = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True).stdout.split()
    assert len({one[-BY_CHANCE:] for one in told}) == 2
