"""The client's log: what it is about to call, and how that came out, in a file outside of the database."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import astuple
from itertools import count
from pathlib import Path

from tests.chaos.evidence import Said
from tests.chaos.witness import append, lines_of


def client_file() -> Path:
    return Path(os.environ["DURABLE_TEST_FOLDER"]) / "client"


def said_by_client(file: Path) -> list[Said]:
    return [Said(*said) for said in lines_of(file)]


class Call:
    """One call of the client's. Made, it is logged as about to be made; ``runs`` are its runs' ids by tag, as soon as
    they are known."""

    # Of several clients one log tells.
    _numbers = count(os.getpid() << 32)

    def __init__(self, verb: str, tags: Sequence[str] = (), runs: dict[str, str] | None = None, key: str | None = None):
        self.number = next(self._numbers)
        self.verb = verb
        self.tags = list(tags)
        self.runs = dict(runs or {})
        self.key = key
        self._say("invoke")

    def came_out(self, moment: str, why: object = "") -> None:
        """``ok``, ``refused`` or ``unknown``."""
        self._say(moment, f"{type(why).__name__}: {why}"[:200] if why else "")

    def _say(self, moment: str, why: str = "") -> None:
        said = Said(self.number, self.verb, moment, time.monotonic(), self.tags, self.runs, self.key, why)
        append(client_file(), astuple(said))
