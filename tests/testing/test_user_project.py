"""The testing kit where it is used: in a project of its own, started as its owner would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

pytestmark = [pytest.mark.contract, pytest.mark.queueless]

PROJECT = Path(__file__).with_name("project")
ROOT = Path(__file__).resolve().parent.parent.parent


def run(*arguments: str, **environment: str) -> str:
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("DURABLE_", "DJANGO_", "PYTEST_"))
    }
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=PROJECT,
        env={**kept, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(ROOT), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def database() -> str:
    """An entry for DATABASES that makes a test database of its own on the same server."""
    used = settings.DATABASES["default"]
    if used["ENGINE"].endswith("sqlite3"):
        return json.dumps({"ENGINE": used["ENGINE"], "NAME": ":memory:"})
    kept = {key: used[key] for key in ("ENGINE", "HOST", "PORT", "USER", "PASSWORD", "OPTIONS")}
    return json.dumps({**kept, "NAME": used["NAME"], "TEST": {"NAME": f"test_user_project_{os.getpid()}"}})


def test_manage_py_test() -> None:
    output = run("-W", "error", "manage.py", "test", "--noinput", PROJECT_DATABASE=database())
    assert "Ran 16 tests" in output
    assert "OK" in output


def test_pytest() -> None:
    output = run(
        "-m", "pytest", "-p", "no:cacheprovider", "shop/pytests.py", "shop/tests.py", PROJECT_DATABASE=database()
    )
    assert "21 passed" in output


def test_pytest_of_a_single_test() -> None:
    """Whether a test database is made at all, pytest-django decides before the first fixture runs."""
    test = "shop/pytests.py::test_the_fixture_brings_the_database"
    output = run("-m", "pytest", "-p", "no:cacheprovider", test, PROJECT_DATABASE=database())
    assert "1 passed" in output


def test_pytest_without_django() -> None:
    """The plugin is there wherever django_durable is installed, and does nothing."""
    options = ["-c", os.devnull, "--rootdir=.", "--confcutdir=.", "-p", "no:django", "-p", "no:cacheprovider", "-rs"]
    output = run("-m", "pytest", *options, "bare.py")
    assert "1 passed, 2 skipped" in output
    assert "django_durable needs Django's settings" in output
