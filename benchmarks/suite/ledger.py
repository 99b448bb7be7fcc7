"""Every figure of a run, written after each scenario, so that a run that was stopped can go on."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from .scenarios import Sample

ROOT = Path(__file__).resolve().parent.parent.parent
MEASURED = ("django_durable", "benchmarks", "tests/servers", ":!benchmarks/results.json")
"""The files that figures depend on, as git is told: what a run writes itself is no change of them."""


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
        return self.figure.partition("@")[0].endswith(("_ms", "_us", "_mb", "_transactions"))

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
    seconds: float = 0.0
    """What the run took with all its parts, until it was last saved."""
    _since: float = field(default_factory=time.monotonic)

    @classmethod
    def new(cls, path: Path) -> Ledger:
        return cls(path, machine())

    @classmethod
    def resume(cls, path: Path) -> Ledger:
        """As ``load``. Raises ValueError where another machine, another Python on it or another state of the code has
        measured."""
        found = cls.load(path)
        told, here = found.machine, machine()
        if told.get("commit") != here["commit"]:
            raise ValueError(
                f"{path} is of commit {told.get('commit')}, this is {here['commit']}: figures of two states of the code"
                " are no comparison; `make bench` begins anew, or remove the file"
            )
        if any(told.get(name) != value for name, value in here.items() if name != "begun"):
            raise ValueError(f"{path} is of another machine or Python: figures of two machines are no comparison")
        return found

    @classmethod
    def load(cls, path: Path) -> Ledger:
        """What an earlier run has written, wherever. Raises FileNotFoundError."""
        read = json.loads(path.read_text())
        series = {name: _series(one) for name, one in read["series"].items()}
        more = {"servers": read.get("servers", {}), "seconds": read.get("seconds", 0.0)}
        return cls(path, read["machine"], series, read["done"], **more)

    def served_by(self, versions: dict[str, str]) -> None:
        """Raises ValueError where servers of other versions were measured with before."""
        if self.servers not in ({}, versions):
            raise ValueError(f"{self.path} is of {self.servers}, these servers are {versions}")
        self.servers = versions

    def add(self, system: str, variant: str, sample: Sample) -> None:
        one = self.series.setdefault(f"{sample.figure} {system} {variant}", Series(system, variant, sample.figure))
        one.values.append(round(sample.value, 4))
        one.costs.append(sample.cost)
        one.noise.append(round(sample.noise, 3))
        one.operations.append(sample.operations)

    def finish(self, scenario: str, system: str, variant: str) -> None:
        self.done.append(f"{scenario} {system} {variant}")
        self.save()

    def is_done(self, scenario: str, system: str, variant: str) -> bool:
        return f"{scenario} {system} {variant}" in self.done

    def figure(self, figure: str, system: str, variant: str) -> Series | None:
        return self.series.get(f"{figure} {system} {variant}")

    def save(self) -> None:
        now = time.monotonic()
        self.seconds, self._since = self.seconds + now - self._since, now
        self.path.parent.mkdir(parents=True, exist_ok=True)
        written = {
            "machine": self.machine,
            "servers": self.servers,
            "seconds": round(self.seconds, 1),
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


def machine() -> dict[str, Any]:
    """What figures depend on, as far as the machine tells."""
    model = ""
    cpu = Path("/proc/cpuinfo")
    if cpu.exists():
        lines = [line for line in cpu.read_text().splitlines() if line.startswith("model name")]
        model = lines[0].partition(":")[2].strip() if lines else ""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": model or platform.processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(memory / 2**30),
        "system": platform.system(),
        "python": platform.python_version(),
        "commit": commit(ROOT),
        "begun": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def commit(folder: Path) -> str | None:
    """The last one that changed ``MEASURED`` in the checkout there; a ``+`` and a hash of what is not committed follow
    where there is any. None where there is no git, or no such commit."""
    try:
        last = _git(folder, "log", "-1", "--format=%H", "HEAD", "--", *MEASURED).decode().strip()
        changes = _git(folder, "diff", "--binary", "HEAD", "--", *MEASURED)
        added = _git(folder, "ls-files", "-z", "--others", "--exclude-standard", "--", *MEASURED).decode().split("\0")
    except (FileNotFoundError, subprocess.CalledProcessError):
        return None
    for name in filter(lambda name: (folder / name).is_file(), added):
        changes += name.encode() + (folder / name).read_bytes()
    return (f"{last}+{hashlib.sha256(changes).hexdigest()[:8]}" if changes else last) or None


def _git(folder: Path, *arguments: str) -> bytes:
    # Without its locks: somebody may be committing beside it.
    command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
