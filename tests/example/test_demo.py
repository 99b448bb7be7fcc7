"""The demo itself, shorter than `make demo`: the worker that dies and the zeros at the end are real."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import psutil
import pytest

from tests.example.conftest import PROJECT

POSTGRES = os.environ.get("DURABLE_TEST_DATABASE_URL", "")
REDIS = os.environ.get("DURABLE_TEST_REDIS_URL", "")
# Not skipped but not there: the suite's main run has all of them.
BACKENDS = ["embedded", *(["postgres"] if POSTGRES else [])]


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_demo_kills_a_worker_and_loses_nothing(
    backend: str, example_environment: Callable[..., dict[str, str]]
) -> None:
    with urls(backend) as more:
        environment = example_environment(**more)
        demo = perform(environment, "--orders", "100", "--seed", "7")
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert demo.stdout.splitlines()[-1] == "charged twice: 0  lost: 0  oversold: 0"
    numbers = {label: int(number) for label, number in re.findall(r"^(\S.*?)\s{2,}(\d+)\b", demo.stdout, re.MULTILINE)}
    assert numbers["orders in"] == numbers["shipped"] + numbers["refused"] == 100
    assert numbers["steps in flight at the kill"] > 0
    assert numbers["runs finished by another worker"] == numbers["runs on the killed worker"] > 0
    assert "\r" not in demo.stdout, "plain lines where there is no terminal"
    assert "gateway, seed 7" in demo.stdout
    assert leftovers(environment["SHOP_DATA"]) == []


def perform(environment: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "manage.py", "demo", *options]
    return subprocess.run(
        command, cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=110, check=False
    )


@contextmanager
def urls(backend: str) -> Iterator[dict[str, str]]:
    """The variables that move the shop to a backend; on PostgreSQL to a database of its own, gone afterwards."""
    if backend == "embedded":
        yield {}
        return
    import psycopg

    with psycopg.connect(POSTGRES, autocommit=True) as connection:
        connection.execute("CREATE DATABASE shop_demo")
        try:
            url = urlsplit(POSTGRES)._replace(path="/shop_demo").geturl()
            yield {"DATABASE_URL": url, **({"REDIS_URL": REDIS} if REDIS else {})}
        finally:
            connection.execute("DROP DATABASE shop_demo WITH (FORCE)")


def leftovers(data: str) -> list[list[str]]:
    """The command lines of processes that work on this demo's data."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("SHOP_DATA") == data:
                found.append(process.cmdline())
    return found
