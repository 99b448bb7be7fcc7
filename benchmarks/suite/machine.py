"""What figures depend on besides the systems: the machine, the versions of what is installed, the state of the code."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
MEASURED = (
    *("django_durable", "benchmarks", "tests/servers", "pyproject.toml"),
    *(":(exclude,glob)benchmarks/*.json", ":(exclude,glob)benchmarks/*.part"),
)
"""The files that figures depend on, as git is told: what a run writes itself is no change of them."""
PLAIN = (
    *("--binary", "--no-ext-diff", "--no-textconv", "--no-color", "--diff-algorithm=myers", "--no-renames"),
    *("--src-prefix=a/", "--dst-prefix=b/", "--unified=3", "--inter-hunk-context=0", "-O/dev/null"),
)
"""However the user likes to see differences."""
PACKAGES = (
    "Django",
    "psycopg",
    "psycopg-binary",
    "psycopg-c",
    "redis",
    "django-redis",
    "hiredis",
    "orjson",
    "uuid_utils",
)


def described() -> dict[str, Any]:
    """As far as the machine tells."""
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
        "packages": {name: installed for name in PACKAGES if (installed := _version(name))},
        "commit": commit(),
        "begun": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def commit(folder: Path = ROOT) -> str | None:
    """The last one that changed ``MEASURED`` in the checkout there; a ``+`` and a hash of what is not committed follow
    where there is any. None where there is no git, or no such commit."""
    try:
        last = _git(folder, "rev-list", "-1", "HEAD", "--", *MEASURED).decode().strip()
        changes = _git(folder, "diff", *PLAIN, "HEAD", "--", *MEASURED)
        added = _git(folder, "ls-files", "-z", "--others", "--exclude-standard", "--", *MEASURED).decode().split("\0")
    except (FileNotFoundError, subprocess.CalledProcessError):
        return None
    if not last:
        return None
    for name in filter(lambda name: (folder / name).is_file(), added):
        changes += name.encode() + (folder / name).read_bytes()
    return f"{last}+{hashlib.sha256(changes).hexdigest()[:8]}" if changes else last


def _git(folder: Path, *arguments: str) -> bytes:
    # Without its locks: somebody may be committing beside it. And of this folder, also in a hook of another one.
    command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    return subprocess.run(
        command, env=without_git(), check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ).stdout


def without_git() -> dict[str, str]:
    """The environment, without what tells git of another repository than the one that it is in."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
