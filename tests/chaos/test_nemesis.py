"""What the nemesis notes is what it has done: what finds nothing is no fault, and explains none."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from tests.chaos.echoing import read
from tests.chaos.nemesis import Nemesis, Targets
from tests.chaos.proxy import Proxy
from tests.processes import PATIENCE, wait_until

MOST = 20_000
"""Bytes of answers with which each cut has come that the nemesis may draw."""


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.fixture
def targets(proxy: Proxy) -> Targets:
    """One wire, and nothing else."""
    return Targets(Mock(), Mock(), Mock(), proxy, proxy, Mock())


def with_plan(monkeypatch: pytest.MonkeyPatch, targets: Targets, *kinds: str) -> Nemesis:
    """One that does these at once."""
    monkeypatch.setattr("tests.chaos.nemesis.plan", lambda chance, seconds: [(0.0, kind) for kind in kinds])
    return Nemesis("seed", targets, start=1.0)


def noted(nemesis: Nemesis) -> list[str]:
    return [fault.kind for fault in nemesis.faults]


@pytest.fixture
def _long_enough(monkeypatch: pytest.MonkeyPatch, proxy: Proxy) -> None:
    """The nemesis sleeps in no time, but for a delay: that lasts until it has held something up."""
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        wait_until(lambda: proxy._delayed or not proxy.is_slow, message="something to be late")
        now += seconds

    monkeypatch.setattr("tests.chaos.nemesis.time", SimpleNamespace(monotonic=lambda: now, sleep=sleep))


def test_a_cut_is_noted_when_it_comes_and_not_before(
    monkeypatch: pytest.MonkeyPatch, targets: Targets, client: socket.socket
) -> None:
    nemesis = with_plan(monkeypatch, targets, "cut_after")
    nemesis.run(0.0)
    assert noted(nemesis) == []
    began = time.monotonic()
    client.sendall(bytes(MOST))
    with suppress(ConnectionResetError):
        assert len(read(client, MOST)) < MOST
    [fault] = nemesis.faults
    assert fault.kind == "cut_after"
    assert began <= fault.at <= fault.until <= time.monotonic()


def test_a_delay_of_nothing_is_none(monkeypatch: pytest.MonkeyPatch, targets: Targets, client: socket.socket) -> None:
    nemesis = with_plan(monkeypatch, targets, "delay_postgres")
    nemesis.run(0.0)
    assert noted(nemesis) == []


@pytest.mark.usefixtures("_long_enough")
def test_a_delay_of_something_is_noted(
    monkeypatch: pytest.MonkeyPatch,
    targets: Targets,
    proxy: Proxy,
    client: socket.socket,
    pool: ThreadPoolExecutor,
) -> None:
    nemesis = with_plan(monkeypatch, targets, "delay_postgres")
    done = pool.submit(nemesis.run, 0.0)
    wait_until(lambda: proxy.is_slow, message="the delay")
    client.sendall(b"late")
    assert read(client, 4) == b"late"
    done.result(PATIENCE)
    assert noted(nemesis) == ["delay_postgres"]


@pytest.mark.usefixtures("_long_enough")
def test_a_delay_waits_for_the_end_of_another_one(
    monkeypatch: pytest.MonkeyPatch,
    targets: Targets,
    proxy: Proxy,
    client: socket.socket,
    pool: ThreadPoolExecutor,
) -> None:
    nemesis = with_plan(monkeypatch, targets, "delay_postgres", "delay_postgres")
    done = pool.submit(nemesis.run, 0.0)
    while not done.done():
        client.sendall(b"late")
        assert read(client, 4) == b"late"
    done.result()
    first, second = nemesis.faults
    assert first.until <= second.at
