"""`make tox`: the tox cells whose Python is on this machine, and a line for each that says how it went.

`--newest` prints the newest interpreter above the running one instead (nothing if there is none); `.ci/run` asks.
`--browser` runs what a newer Django may break of the admin's pages instead: on the newest, in a browser.
"""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Where the usual version managers keep their interpreters, below the home.
MANAGED = [
    ".pyenv/versions/*/bin",
    ".local/share/uv/python/*/bin",
    ".local/share/mise/installs/python/*/bin",
    ".asdf/installs/python/*/bin",
]
Version = tuple[int, int]


def main(arguments: list[str]) -> int:
    interpreters = dict(find_interpreters())
    if arguments == ["--newest"]:
        newest = max(interpreters, default=(0, 0))
        print(interpreters[newest] if newest > sys.version_info[:2] else "")
        return 0
    if arguments[:1] == ["--browser"]:
        return run_in_browser(interpreters, arguments[1:])
    results = {cell: run(cell, interpreters, arguments) for cell in cells()}
    print("\n== cells")
    for cell, result in results.items():
        print(f"{cell:16} {result}")
    return int("FAILED" in results.values())


def run_in_browser(interpreters: dict[Version, Path], arguments: list[str]) -> int:
    if (cell := browser_cell(interpreters)) is None:
        print("not possible: no Python here that the newest Django runs on", file=sys.stderr)
        return 1
    return int(run(cell, interpreters, arguments) == "FAILED")


def browser_cell(interpreters: Collection[Version]) -> str | None:
    """That of the newest Django on the newest of these."""
    newest = max((django_of(cell) for cell in cells()), key=lambda name: int(name.removeprefix("django")))
    possible = [cell for cell in cells() if django_of(cell) == newest and version_of(cell) in interpreters]
    return f"{max(possible, key=version_of)}-browser" if possible else None


def cells() -> Iterator[str]:
    config = configparser.ConfigParser()
    config.read(ROOT / "tox.ini")
    for entry in re.split(r",\s*(?![^{]*\})", config["tox"]["env_list"].strip()):
        yield from expand(entry)


def expand(entry: str) -> Iterator[str]:
    """`py{312,313}-django52` -> its two names."""
    if not (choice := re.search(r"\{([^}]*)\}", entry)):
        yield entry
        return
    for word in choice[1].split(","):
        yield from expand(entry[: choice.start()] + word.strip() + entry[choice.end() :])


def run(cell: str, interpreters: dict[Version, Path], arguments: list[str]) -> str:
    version = version_of(cell)
    if version not in interpreters:
        return f"not possible: no Python {version[0]}.{version[1]} here"
    print(f"== {cell}", flush=True)
    command = [sys.executable, "-m", "tox", "-q", "-e", cell]
    if arguments:
        command += ["--", *arguments]
    status = subprocess.run(command, cwd=ROOT, env=environment(interpreters)).returncode
    return "FAILED" if status else "passed"


def environment(interpreters: dict[Version, Path]) -> dict[str, str]:
    folders = [str(path.parent) for path in interpreters.values()]
    servers = any(shutil.which(name) for name in ("redis-server", "valkey-server"))
    has_redis = servers or "DURABLE_TEST_REDIS_URL" in os.environ
    return {
        **os.environ,
        "PATH": os.pathsep.join([*folders, os.environ.get("PATH", os.defpath)]),
        "DURABLE_TEST_BACKEND_NEWER": "postgres-redis" if has_redis else "postgres-database",
    }


def find_interpreters() -> Iterator[tuple[Version, Path]]:
    """One interpreter that really starts for each version the cells ask for."""
    for version in sorted({version_of(cell) for cell in cells()}):
        name = f"python{version[0]}.{version[1]}"
        if path := next((path for path in candidates(name) if starts(path, version)), None):
            yield version, path


def version_of(cell: str) -> Version:
    digits = cell.partition("-")[0].removeprefix("py")
    return int(digits[0]), int(digits[1:])


def django_of(cell: str) -> str:
    return cell.split("-")[1]


def candidates(name: str) -> Iterable[Path]:
    on_path = (Path(folder) / name for folder in os.get_exec_path())
    managed = (path / name for pattern in MANAGED for path in sorted(Path.home().glob(pattern)))
    return (path for paths in (on_path, managed) for path in paths if path.exists())


def starts(path: Path, version: Version) -> bool:
    # A version manager's shim is on the PATH also where the version behind it is not installed.
    command = [path, "-c", "import ensurepip, sys, venv; print(*sys.version_info[:2])"]
    result = subprocess.run(command, capture_output=True, text=True)
    return result.stdout.split() == [str(part) for part in version]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
