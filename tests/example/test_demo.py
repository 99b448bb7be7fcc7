"""The demo itself, shorter than `make demo`: the worker that dies and the zeros at the end are real."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from gateway.faults import Fault, FaultPlan
from tests.example.conftest import PROJECT
from tests.example.leftovers import leftovers

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
    rows = re.findall(r"^ *(\S.*?) {2,}(\d+)\b", demo.stdout, re.MULTILINE)
    numbers = {label: int(number) for label, number in rows}
    assert numbers["orders in"] == numbers["shipped"] + numbers["refused"] == 100
    assert numbers["steps in flight at the kill"] > 0
    assert numbers["runs finished by another worker"] == numbers["runs on the killed worker"] > 0
    assert "\r" not in demo.stdout, "plain lines where there is no terminal"
    assert "gateway, seed 7" in demo.stdout
    assert numbers["times the day was closed by cron"] > 0
    assert_faults(numbers, seed=7)
    assert_charged_once(Path(environment["SHOP_DATA"]) / "gateway.jsonl", numbers)
    assert leftovers(environment["SHOP_DATA"]) == []


def assert_faults(numbers: dict[str, int], *, seed: int) -> None:
    """The gateway was as bad as the printed seed says: at least 5 % refused, 3 % charged without an answer."""
    requests = numbers["requests that it got"]
    plan = FaultPlan(seed)
    refused = sum(plan.fault(number) is Fault.UNAVAILABLE for number in range(requests))
    assert numbers["answered 503"] == refused >= 0.05 * requests
    assert numbers["charged, then timed out"] >= 0.03 * requests


def assert_charged_once(ledger: Path, numbers: dict[str, int]) -> None:
    """By the gateway's own book, also where it charged without an answer and was asked again."""
    entries = [json.loads(line) for line in ledger.read_text().splitlines()]
    charged = [entry["reference"] for entry in entries if entry["kind"] == "charge"]
    assert len(charged) == len(set(charged)) == numbers["charges at the gateway"] >= numbers["shipped"] > 0


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
