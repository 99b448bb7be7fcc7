"""Every figure of a run, written after each scenario, so that a run that was stopped can go on."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from . import machine
from .sample import Sample


class Incomparable(ValueError):
    """Figures of two machines, servers or states of the code would stand side by side."""


@dataclass
class Series:
    """The repetitions of one figure: ``S2_drain`` of ``dbos``, ``async``."""

    system: str
    variant: str
    figure: str
    values: list[float] = field(default_factory=list)
    costs: list[dict[str, float]] = field(default_factory=list)
    noise: list[float] = field(default_factory=list)
    operations: list[int] = field(default_factory=list)
    """How many each repetition had, so what a share of them is worth. Older results have none."""

    @property
    def is_cost(self) -> bool:
        """A time or the like: less is better; of all else more."""
        return self.figure.partition("@")[0].endswith(("_ms", "_us", "_mb", "_queries"))

    @property
    def median(self) -> float:
        return median(self.values)

    @property
    def cost(self) -> dict[str, float]:
        """The medians of what each repetition cost."""
        names = {name for cost in self.costs for name in cost}
        return {name: median(cost[name] for cost in self.costs if name in cost) for name in sorted(names)}


@dataclass
class Ledger:
    path: Path
    machine: dict[str, Any]
    series: dict[str, Series] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    """``S2 dbos async``: what need not be measured again when the run goes on."""
    ratios: dict[str, Any] = field(default_factory=dict)
    servers: dict[str, str] = field(default_factory=dict)
    """The versions of PostgreSQL and Redis."""
    peers: dict[str, dict[str, str]] = field(default_factory=dict)
    """By participant: what of it is installed, and in which version."""
    seconds: dict[str, float] = field(default_factory=dict)
    """What each of its ``parts`` took, until it was last saved."""
    part: str = ""
    """Of which of them what is measured now is one."""
    _since: float = field(default_factory=time.monotonic)

    @classmethod
    def new(cls, path: Path) -> Ledger:
        return cls(path, machine.described())

    @classmethod
    def resume(cls, path: Path) -> Ledger:
        """As ``load``. Raises Incomparable where another machine, other packages on it or another state of the code
        have measured."""
        found = cls.load(path)
        told, here = found.machine, machine.described()
        if told.get("commit") != here["commit"]:
            raise Incomparable(
                f"{path} is of commit {told.get('commit')}, this is {here['commit']}: figures of two states of the code"
                " are no comparison; `make bench` begins anew, or remove the file"
            )
        if any(told.get(name) != value for name, value in here.items() if name != "begun"):
            raise Incomparable(
                f"{path} is of another machine, Python or version of a package: figures of two are no comparison"
            )
        return found

    @classmethod
    def load(cls, path: Path) -> Ledger:
        """What an earlier run has written, wherever. Raises FileNotFoundError."""
        read = json.loads(path.read_text())
        series = {name: _series(one) for name, one in read["series"].items()}
        more = {name: read.get(name, {}) for name in ("servers", "peers", "seconds", "ratios")}
        if not isinstance(more["seconds"], dict):
            # Older results have the sum of all parts.
            more["seconds"] = {}
        return cls(path, read["machine"], series, read["done"], **more)

    def served_by(self, versions: dict[str, str]) -> None:
        """Raises Incomparable where servers of other versions were measured with before."""
        if self.servers not in ({}, versions):
            raise Incomparable(f"{self.path} is of {self.servers}, these servers are {versions}")
        self.servers = versions

    def installed(self, participant: str, versions: dict[str, str]) -> None:
        """Raises Incomparable where other versions were measured before."""
        if (before := self.peers.setdefault(participant, versions)) != versions:
            raise Incomparable(f"{self.path} is of {before}, here are {versions}")

    def add(self, system: str, variant: str, sample: Sample) -> None:
        one = self.series.setdefault(f"{sample.figure} {system} {variant}", Series(system, variant, sample.figure))
        one.values.append(round(sample.value, 4))
        one.costs.append(sample.cost)
        one.noise.append(round(sample.noise, 3))
        one.operations.append(sample.operations)

    def finish(self, scenario: str, system: str, variant: str) -> None:
        """Keep what was measured. Raises Incomparable, and keeps nothing of it, where the code was changed since."""
        if machine.commit() != self.machine["commit"]:
            raise Incomparable(f"the code was changed while {scenario} of {system} was measured with it: begin anew")
        self.done.append(f"{scenario} {system} {variant}")
        self.save()

    def is_done(self, scenario: str, system: str, variant: str) -> bool:
        return f"{scenario} {system} {variant}" in self.done

    def figure(self, figure: str, system: str, variant: str) -> Series | None:
        return self.series.get(f"{figure} {system} {variant}")

    def save(self) -> None:
        now = time.monotonic()
        took, self._since = now - self._since, now
        if self.part:
            self.seconds[self.part] = round(self.seconds.get(self.part, 0.0) + took, 1)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        written = {
            "machine": self.machine,
            "servers": self.servers,
            "peers": self.peers,
            "seconds": self.seconds,
            "ratios": self.ratios,
            "done": self.done,
            "series": {name: asdict(one) | {"median": one.median, "cost": one.cost} for name, one in self._sorted()},
        }
        draft = self.path.with_suffix(".part")
        draft.write_text(json.dumps(written, indent=1) + "\n")
        draft.replace(self.path)

    def _sorted(self) -> list[tuple[str, Series]]:
        return sorted(self.series.items())


def _series(read: dict[str, Any]) -> Series:
    """Without what is reckoned from the rest."""
    return Series(**{name: value for name, value in read.items() if name not in ("median", "cost")})
