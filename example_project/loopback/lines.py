"""An append-only file of JSON lines: a line that ``append`` returned from survives ``kill -9``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


class LinesFile:
    """Appends are not locked here: the caller decides and records under one lock of its own."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        _drop_torn_end(path)
        self._path = path

    def append(self, record: dict[str, Any]) -> None:
        with self._path.open("ab") as file:
            file.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


def read_lines(path: Path) -> list[dict[str, Any]]:
    """All whole records; a last line that was cut by a crash was never confirmed and is left out."""
    raw = path.read_bytes() if path.exists() else b""
    return [json.loads(line) for line in raw[: raw.rfind(b"\n") + 1].splitlines()]


def _drop_torn_end(path: Path) -> None:
    # The next record would otherwise be glued to the torn one and both would be lost.
    if path.exists():
        raw = path.read_bytes()
        os.truncate(path, raw.rfind(b"\n") + 1)
