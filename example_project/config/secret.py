"""A secret that is made once and kept in the data folder, so that the repository holds none."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def secret(path: Path) -> str:
    """The secret in ``path``, made there on first use and readable by its owner only."""
    if not path.exists():
        _create(path)
    return path.read_text()


def _create(path: Path) -> None:
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.touch(mode=0o600)
    draft.write_text(secrets.token_urlsafe(48))
    try:
        # Several processes may start at once: the link is made by one of them, and the others read its secret.
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
