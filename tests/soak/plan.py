"""What a soak of so many minutes keeps to."""

from __future__ import annotations

from dataclasses import dataclass

DAY = 86_400.0

TICK = "soak.tick"
"""The workflow that a schedule starts, as long as there are workers."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Of a soak that lasts ``seconds``, at that part of what the workers can do at most.

    In an hour everything is deleted some ten times over, as it is in a year by the defaults. A shorter soak does the
    same in less time, down to where that would be shorter than what a run takes.
    """

    seconds: float
    load: float = 0.7

    @property
    def warm_up(self) -> float:
        """Seconds of the load before anything is measured: until as much is deleted as is added."""
        return self.seconds / 4

    @property
    def retention(self) -> float:
        """Seconds for which a run that is over is kept."""
        return max(10.0, self.seconds / 12)

    @property
    def interval(self) -> float:
        """Seconds between two samples."""
        return min(10.0, self.seconds / 120)

    @property
    def calibration(self) -> float:
        """Seconds for which the workers have as much to do as they can."""
        return min(30.0, self.seconds / 4)

    @property
    def samples(self) -> int:
        return round(self.seconds / self.interval)

    @property
    def durable(self) -> dict[str, float]:
        """What the setting DURABLE has besides its defaults."""
        return {"RETENTION_DAYS": self.retention / DAY}

    @property
    def postgres(self) -> dict[str, str]:
        """PostgreSQL's own defaults instead of those of the tests, in an hour that of autovacuum's rest too."""
        naptime = max(1, min(60, round(self.seconds / 60)))
        return {"autovacuum_naptime": f"{naptime}s", "checkpoint_timeout": "5min", "max_wal_size": "1GB"}
