"""The parcels that the warehouse knows, kept in a file of its own: a restart forgets none and packs none twice."""

from __future__ import annotations

import hashlib
import threading
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from loopback.lines import LinesFile, read_lines


class Stage(StrEnum):
    ASKED = "asked"
    PACKED = "packed"
    TOLD = "told"
    STOPPED = "stopped"


@dataclass
class Parcel:
    order: str
    callback: str
    stage: Stage = Stage.ASKED
    next_at: float = 0.0
    """When to go on with it, on this process's monotonic clock."""
    calls: int = 0

    @property
    def tracking(self) -> str:
        return "DD" + hashlib.sha256(self.order.encode()).hexdigest()[:10].upper()

    @property
    def is_open(self) -> bool:
        return self.stage in (Stage.ASKED, Stage.PACKED)


class Parcels:
    """Every change is in the file before it counts."""

    def __init__(self, path: Path) -> None:
        self._parcels: dict[str, Parcel] = {}
        self._changed = threading.Condition()
        for record in read_lines(path):
            self._replay(record)
        self._file = LinesFile(path)

    def ask(self, order: str, callback: str, *, pack_seconds: float) -> Parcel:
        """Remember to pack an order; asking again changes nothing."""
        with self._changed:
            if order not in self._parcels:
                self._file.append({"stage": Stage.ASKED, "order": order, "callback": callback})
                self._parcels[order] = Parcel(order, callback, next_at=time.monotonic() + pack_seconds)
                self._changed.notify()
            return self._parcels[order]

    def stop(self, order: str) -> bool:
        """Do not pack it, now or later: an ask that is still on its way comes too late. False where it is packed."""
        with self._changed:
            parcel = self._parcels.setdefault(order, Parcel(order, callback=""))
            if parcel.stage is Stage.ASKED:
                self._record(parcel, Stage.STOPPED)
            return parcel.stage is Stage.STOPPED

    def due(self) -> Parcel:
        """The next parcel to go on with, packed by now; blocks until there is one. It is due again in a second."""
        with self._changed:
            while (parcel := self._next()) is None or parcel.next_at > time.monotonic():
                self._changed.wait(None if parcel is None else max(0.0, parcel.next_at - time.monotonic()))
            if parcel.stage is Stage.ASKED:
                self._record(parcel, Stage.PACKED)
            parcel.calls += 1
            # Back-off of the callback, and the claim on this parcel: no other thread takes it meanwhile.
            parcel.next_at = time.monotonic() + min(0.5 * 2**parcel.calls, 5.0)
            return parcel

    def told(self, parcel: Parcel) -> None:
        with self._changed:
            if parcel.is_open:
                self._record(parcel, Stage.TOLD)

    def counts(self) -> dict[str, int]:
        with self._changed:
            stages = [parcel.stage for parcel in self._parcels.values()]
        return {stage.value: stages.count(stage) for stage in Stage}

    def _next(self) -> Parcel | None:
        return min((p for p in self._parcels.values() if p.is_open), key=lambda p: p.next_at, default=None)

    def _record(self, parcel: Parcel, stage: Stage) -> None:
        self._file.append({"stage": stage, "order": parcel.order})
        parcel.stage = stage

    def _replay(self, record: dict[str, Any]) -> None:
        stage = Stage(record["stage"])
        if stage is Stage.ASKED:
            self._parcels[record["order"]] = Parcel(record["order"], record["callback"])
        else:
            self._parcels.setdefault(record["order"], Parcel(record["order"], callback="")).stage = stage
