"""A virtual environment for each peer, kept between runs in ``.bench`` and made anew when its requirements change."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import venv
from pathlib import Path

from .systems import Participant

ENVIRONMENTS = Path(__file__).resolve().parent.parent.parent / ".bench"


def python_of(participant: Participant) -> Path:
    """The interpreter that runs its processes; the first time, or after a change, this installs what it needs.

    Raises CalledProcessError where pip does.
    """
    if participant.is_own:
        return Path(sys.executable)
    folder = ENVIRONMENTS / participant.name
    requirements = participant.folder / "requirements.txt"
    python, marker = folder / "bin" / "python", folder / "requirements.sha256"
    wanted = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()
    if not marker.exists() or marker.read_text() != wanted:
        print(f"== installing {participant.name} into {folder.relative_to(ENVIRONMENTS.parent)}", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, "-r", str(requirements)], check=True)
        marker.write_text(wanted)
    return python
