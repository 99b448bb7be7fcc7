"""The example project is a project of its own: its packages are found from its folder, as by its `manage.py`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = ROOT / "example_project"

sys.path.insert(0, str(PROJECT))


@pytest.fixture
def example_environment(tmp_path: Path) -> Callable[..., dict[str, str]]:
    """Makes the environment of a process of the example: nothing of these tests' own settings, data in `tmp_path`."""

    def make(**more: str) -> dict[str, str]:
        ours = ("DJANGO_", "DURABLE_", "SHOP_", "DATABASE_URL", "REDIS_URL", "SECRET_KEY")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        return {**environment, "PYTHONPATH": str(ROOT), "SHOP_DATA": str(tmp_path / "data"), **more}

    return make
