"""The gateway's own book: one line for each movement of money, written before anybody is told of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Literal

from loopback.lines import LinesFile, read_lines

Kind = Literal["charge", "refund", "void"]


@dataclass(frozen=True)
class Entry:
    """``void`` moves no money: it closes a key under which nothing had been charged."""

    kind: Kind
    key: str
    reference: str
    amount: str
    charge_id: str
    at: str

    @property
    def money(self) -> Decimal:
        return Decimal(self.amount)


class Ledger:
    def __init__(self, path: Path) -> None:
        self.known = list(read_ledger(path))
        self._file = LinesFile(path)

    def write(self, kind: Kind, *, key: str, reference: str, amount: Decimal, charge_id: str) -> Entry:
        entry = Entry(kind, key, reference, str(amount), charge_id, datetime.now(UTC).isoformat())
        self._file.append(asdict(entry))
        return entry


def read_ledger(path: Path) -> Iterator[Entry]:
    """Every movement in the file, oldest first."""
    return (Entry(**record) for record in read_lines(path))
