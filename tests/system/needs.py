"""What this folder's tests need of the machine, and in which package of Debian it is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

FAKETIME = "DURABLE_TEST_FAKETIME"
"""Names the library where it is in none of the usual places."""
LIBRARY = "faketime/libfaketimeMT.so.1"


@dataclass(frozen=True)
class Need:
    """``is_met`` looks; ``otherwise`` is what to do where it is not."""

    name: str
    is_met: Callable[[], bool]
    otherwise: str


def faketime_library() -> Path | None:
    """The one for programs with threads: by LD_PRELOAD it tells a process another time."""
    if named := os.environ.get(FAKETIME):
        return Path(named) if Path(named).exists() else None
    found = [path for root in ("/usr/lib", "/usr/local/lib") for path in Path(root).glob(f"**/{LIBRARY}")]
    return found[0] if found else None


def may_mount() -> bool:
    """Root may, but for one in a container without the capability: its bit is the 21st."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> 21 & 1)
    return False


def package(command: str, name: str = "") -> Need:
    return Need(command, lambda: shutil.which(command) is not None, f"apt-get install {name or command}")


NEEDS = [
    package("pgbouncer"),
    package("spin"),
    package("gcc"),
    package("ip", "iproute2"),
    Need("libfaketime", lambda: faketime_library() is not None, f"apt-get install faketime, or {FAKETIME}=/path/to/it"),
    Need("the right to mount a tmpfs", may_mount, "run this as root (in a container with the capability SYS_ADMIN)"),
]


def missing() -> list[Need]:
    return [need for need in NEEDS if not need.is_met()]
