"""A small file system in memory, that fills up and is made empty again."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class SmallDisk:
    """A mounted folder; ``fill`` leaves no room for anything, ``free`` gives it all back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    @property
    def room(self) -> int:
        """Bytes that anybody could still write."""
        now = os.statvfs(self.path)
        return now.f_bavail * now.f_frsize

    def fill(self, leaving: int = 0) -> None:
        # Without a buffer: what there is no room for would be written once more when it closes.
        with self._ballast.open("ab", buffering=0) as file:
            try:
                while (piece := min(self.room - leaving, 1 << 20)) > 0:
                    file.write(b"\0" * piece)
            except OSError:
                # Somebody else was faster with the last of it.
                assert self.room <= leaving

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)


@contextmanager
def small_disk(path: Path, size: str, user: str | None = None) -> Iterator[SmallDisk]:
    """A tmpfs of ``size`` (as `mount` takes it) at ``path``, owned by ``user``."""
    path.mkdir()
    options = f"size={size},mode=0700"
    if user is not None:
        account = pwd.getpwnam(user)
        options += f",uid={account.pw_uid},gid={account.pw_gid}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", path], check=True)
    try:
        yield SmallDisk(path)
    finally:
        # Lazily: a process that is about to be killed may still have a file open.
        subprocess.run(["umount", "--lazy", path], check=True)
