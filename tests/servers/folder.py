"""One temporary folder for a run: data, sockets, logs. It is removed with the run, also when the run was killed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# A unix socket's path may have 107 bytes (103 on macOS), and `/postgres/.s.PGSQL.5432` comes behind this one.
LONGEST = 60

# Servers that end with the same run may still write when the first attempt comes by.
REMOVER = """
import shutil, sys, time
sys.stdin.read()
for attempt in range(100):
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    try:
        open(sys.argv[1]).close()
    except FileNotFoundError:
        break
    except OSError:
        time.sleep(0.1)
"""


class Folder:
    """`with Folder() as path:`; as root other users may pass through it (not list it) to what is theirs below."""

    def __init__(self, prefix: str = "durable-") -> None:
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=base()))
        if os.geteuid() == 0:
            self.path.chmod(0o711)
        self._remover = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", REMOVER, str(self.path)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def remove(self) -> None:
        self._remover.communicate()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *exc_info: object) -> None:
        self.remove()


def base() -> str:
    usual = tempfile.gettempdir()
    if len(usual) > LONGEST - len("/durable-12345678") or (os.geteuid() == 0 and not reachable(Path(usual))):
        return "/tmp"  # noqa: S108
    return usual


def reachable(path: Path) -> bool:
    """Whether any user of this machine can pass through `path` and all folders above it."""
    path = path.resolve()
    return all(folder.stat().st_mode & 0o001 for folder in (path, *path.parents))


def free_copy(source: Path, target: Path) -> Path:
    """A copy that every user may read and run."""
    shutil.copytree(source, target, symlinks=True)
    for entry in (target, *target.rglob("*")):
        if not entry.is_symlink():
            runnable = entry.is_dir() or entry.stat().st_mode & 0o100
            entry.chmod(0o755 if runnable else 0o644)
    return target
