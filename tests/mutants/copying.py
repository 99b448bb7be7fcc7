"""Copies of the checkout, which the mutants live in: the checkout itself is never touched."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import cache_from_source
from pathlib import Path

from .mutant import ENGINE, Mutant

ROOT = Path(__file__).resolve().parents[2]


class Copy:
    """The checkout's files in a folder of their own, with at most one mutant at a time."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def twin(self, root: Path) -> Copy:
        """Another copy of the same files."""
        shutil.copytree(self.root, root)
        return Copy(root)

    @contextmanager
    def bearing(self, mutant: Mutant) -> Iterator[None]:
        """With the mutant's fault in it. Raises DoesNotApply."""
        file = self.root / ENGINE / mutant.file
        source = file.read_text()
        write(file, mutant.applied(source))
        try:
            yield
        finally:
            write(file, source)


def write(file: Path, source: str) -> None:
    file.write_text(source)
    # Bytecode goes by the size and the second of its source: a comparison that is turned round changes neither.
    Path(cache_from_source(str(file))).unlink(missing_ok=True)


def copy_checkout(target: Path) -> Copy:
    """What git tracks and what it would, so that a test can be tried on the mutants before it is committed."""
    for name in files_of(ROOT):
        copied = target / name
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copied)
    return Copy(target)


def files_of(root: Path) -> list[str]:
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    # A file that was deleted and not yet committed is still listed.
    return [name for name in listed.split("\0") if name and (root / name).is_file()]
