"""`make tox`: which cells there are, which can be run here, and what is said of them."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import tox_cells

CELLS = ["py311-django52", *(f"py{python}-django{django}" for python in (312, 313, 314) for django in (52, 60, 61))]
HERE = sys.version_info[:2]


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def tox(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[list[str]]]:
    """Has these interpreters, and a tox that fails in these cells; what it was called with."""

    def make(*versions: tuple[int, int], fails: str = "") -> list[list[str]]:
        called: list[list[str]] = []

        def run(command: list[str], **_: Any) -> SimpleNamespace:
            called.append(command)
            return SimpleNamespace(returncode=int(fails in command))

        found = [(version, Path(f"/opt/python{version[0]}.{version[1]}/bin/python")) for version in versions]
        monkeypatch.setattr(tox_cells, "find_interpreters", lambda: iter(found))
        monkeypatch.setattr(tox_cells.subprocess, "run", run)
        return called

    return make


def test_the_cells_are_those_of_tox_ini() -> None:
    assert list(tox_cells.cells()) == CELLS


def test_cells_without_their_python_are_told_and_do_not_fail(
    tox: Callable[..., list[list[str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    called = tox((3, 11), (3, 13))
    assert tox_cells.main(["-k", "sleep"]) == 0
    assert [command[5] for command in called] == [cell for cell in CELLS if cell.startswith(("py311", "py313"))]
    assert all(command[6:] == ["--", "-k", "sleep"] for command in called)
    told = capsys.readouterr().out.split("== cells\n")[1].splitlines()
    assert [line.split()[0] for line in told] == CELLS
    assert told[0].split()[1:] == ["passed"]
    assert told[1].endswith("not possible: no Python 3.12 here")


def test_a_cell_that_fails_is_the_exit_status(
    tox: Callable[..., list[list[str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    tox((3, 12), fails="py312-django60")
    assert tox_cells.main([]) == 1
    assert [line for line in capsys.readouterr().out.splitlines() if "FAILED" in line] == ["py312-django60   FAILED"]


def test_the_browser_is_for_the_newest_django_on_the_newest_python(tox: Callable[..., list[list[str]]]) -> None:
    called = tox((3, 11), (3, 12), (3, 13), fails="py312-django61-browser")
    assert tox_cells.main(["--browser", "-x"]) == 0
    assert called[0][5:] == ["py313-django61-browser", "--", "-x"]
    assert tox_cells.browser_cell([(3, 11), (3, 12)]) == "py312-django61-browser"
    tox((3, 11), (3, 12), fails="py312-django61-browser")
    assert tox_cells.main(["--browser"]) == 1


def test_without_a_python_for_the_newest_django_the_browser_fails(
    tox: Callable[..., list[list[str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    called = tox((3, 11))
    assert tox_cells.main(["--browser"]) == 1
    assert called == []
    assert capsys.readouterr().err.startswith("not possible")


def test_what_the_browser_is_for_is_there() -> None:
    """A test that is called otherwise by now would be left out, and nobody told."""
    config = configparser.ConfigParser()
    config.read(tox_cells.ROOT / "tox.ini")
    [named] = re.findall(r'browser: python -m tests\.browser -k "([^"]+)"', config["testenv"]["commands"])
    assert named.split(" or ")
    for name in named.split(" or "):
        assert (tox_cells.ROOT / "tests" / "browser" / f"{name}.py").exists(), name


def test_the_newest_is_one_above_the_running_python_or_none(
    tox: Callable[..., list[list[str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    tox(HERE)
    assert tox_cells.main(["--newest"]) == 0
    assert capsys.readouterr().out == "\n"
    tox(HERE, (3, 98), (3, 99))
    assert tox_cells.main(["--newest"]) == 0
    assert capsys.readouterr().out == "/opt/python3.99/bin/python\n"


def test_a_shim_without_a_python_behind_it_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script(tmp_path / "shims" / "python3.14", "echo 'python3.14: command not found' >&2; exit 127")
    other = script(tmp_path / "bin" / "python3.14", "echo 3 14")
    script(tmp_path / "bin" / "python3.13", "echo 3 12")
    monkeypatch.setenv("PATH", f"{tmp_path / 'shims'}:{tmp_path / 'bin'}")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert dict(tox_cells.find_interpreters()) == {(3, 14): other}


@pytest.mark.parametrize(
    ("server", "url", "backend"),
    [("", "", "postgres-database"), ("valkey-server", "", "postgres-redis"), ("", "redis://h", "postgres-redis")],
)
def test_newer_pythons_have_redis_where_there_is_one(
    server: str, url: str, backend: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("DURABLE_TEST_REDIS_URL", raising=False)
    if server:
        script(tmp_path / server, "")
    if url:
        monkeypatch.setenv("DURABLE_TEST_REDIS_URL", url)
    environment = tox_cells.environment({(3, 13): Path("/opt/13/bin/python3.13")})
    assert environment["DURABLE_TEST_BACKEND_NEWER"] == backend
    assert environment["PATH"] == f"/opt/13/bin:{tmp_path}"


@pytest.fixture
def land(tmp_path: Path) -> Callable[..., list[str]]:
    """Runs `.ci/run` where there is a `make` that tells what it got, and nothing else of what it looks for: what it has
    said. What it would install, as whoever, stands in the file ``asked``."""
    run = script(tmp_path / ".ci" / "run", "")
    run.write_bytes((tox_cells.ROOT / ".ci" / "run").read_bytes())
    script(tmp_path / "bin" / "make", 'echo "$* ${DURABLE_TEST_DATABASE_URL-wheel} ${DURABLE_TEST_REDIS_URL-wheel}"')
    script(tmp_path / ".venv" / "bin" / "python", "true")
    script(tmp_path / "bin" / "apt-get", f'echo "apt-get $*" >>{tmp_path / "asked"}')
    script(tmp_path / "bin" / "sudo", 'shift; exec "$@"')
    for command in ("bash", "dirname", "id"):
        found = shutil.which(command)
        assert found is not None
        (tmp_path / "bin" / command).symlink_to(found)

    def make(**more: str) -> list[str]:
        environment = {"PATH": str(tmp_path / "bin"), **more}
        done = subprocess.run([run], env=environment, capture_output=True, text=True, timeout=20, check=True)
        return done.stdout.splitlines()

    return make


def test_what_must_pass_before_a_change_lands_runs_on_the_wheels(land: Callable[..., list[str]]) -> None:
    """On no server that the environment knows of."""
    told = land(DURABLE_TEST_DATABASE_URL="postgresql:///x", DURABLE_TEST_REDIS_URL="redis://x")
    # Again where it did too little, and no longer than four minutes.
    chaos = "chaos DURATION=60 ARGS=--tries 3 --within 240"
    targets = ("check", "test", "test-browser", "test-faults", chaos, "test-system")
    assert [line for line in told if line.endswith("wheel wheel")] == [f"{target} wheel wheel" for target in targets]


SHELL = "chromium-headless-shell"


@pytest.mark.parametrize(
    ("named", "there", "has_shell", "asked"),
    [
        ("", "", True, {SHELL}),
        ("", "", False, {"chromium"}),
        ("", "google-chrome", True, {SHELL}),
        ("", "google-chrome", False, set()),
        ("", SHELL, True, set()),
        ("/opt/chromium", "", True, set()),
    ],
)
def test_before_a_change_lands_the_browser_is_installed_where_there_is_none(
    land: Callable[..., list[str]], tmp_path: Path, named: str, there: str, has_shell: bool, asked: set[str]
) -> None:
    """The one without windows, where the packages have it, also beside another."""
    script(tmp_path / "bin" / "apt-cache", f'[ "$*" = "show {SHELL}" ] && exit {int(not has_shell)}; exit 2')
    if there:
        script(tmp_path / "bin" / there, "true")
    told = land(DURABLE_TEST_BROWSER=named)
    updated, installed = (tmp_path / "asked").read_text().splitlines()
    assert updated.startswith("apt-get update ")
    assert installed.startswith("apt-get install ")
    assert "spin" in installed.split()
    assert {word for word in installed.split() if "chrom" in word} == asked
    [before] = [number for number, line in enumerate(told) if line.startswith("== installing ")]
    assert before < told.index("test-browser wheel wheel")
