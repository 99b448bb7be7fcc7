"""What the queries have to know of settings and code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, cast

from ...conf import durable_settings
from ...core.registry import definitions, limits
from ..database import as_json
from ..pruning import retention

LONGEST_KEPT = 3600.0


class _Retained(Protocol):
    """A workflow, as far as its retention goes."""

    @property
    def options(self) -> Any: ...


@dataclass(slots=True, frozen=True)
class Terms:
    """``settled``: seconds after which a sweep must have found what nobody woke. ``kept``: seconds for which no
    retention has removed a run that is over; an hour at most."""

    settled: float
    kept: float
    max_crashes: int
    max_bytes: int
    limits: str

    @classmethod
    def now(cls, settled: float) -> Terms:
        """As settings and code of this process say."""
        settings = durable_settings()
        own = {name: cast(_Retained, workflow).options.retention for name, workflow in definitions().items()}
        maxima = [{"workflow": name, "maximum": bounds.concurrency} for name, bounds in limits().items()]
        return cls(
            settled=float(settled),
            kept=float(min(retention(own).shortest, LONGEST_KEPT)),
            max_crashes=settings.MAX_CRASHES,
            max_bytes=settings.MAX_PAYLOAD_BYTES,
            limits=as_json(maxima),
        )

    @property
    def parameters(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}
