"""What does not come to its end in the peace after a round is told: each kind of it, planted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chaos import calming, clockwork
from tests.chaos.calming import calm_down, last_runs, said
from tests.chaos.clockwork import Clockwork
from tests.chaos.fleet import Fleet, queue_of
from tests.processes import Worker

SOON = 0.1


class Ending:
    """A worker that was told to end, and does so with this status; or a client. None: it goes on."""

    def __init__(self, status: int | None) -> None:
        self._status = status
        self.was_killed = False

    @property
    def running(self) -> bool:
        return self._status is None

    def signal(self, number: int) -> None: ...

    def wait(self, timeout: float) -> int:
        if self._status is None:
            raise TimeoutError
        return self._status

    def kill(self) -> None:
        self.was_killed = True


def fleet_of(*workers: Any) -> Fleet:
    fleet = Fleet(0, {})
    fleet.workers = dict(enumerate(workers))
    return fleet


def test_workers_that_do_not_end_or_not_well_are_found() -> None:
    good, lasting, bad = Ending(0), Ending(None), Ending(1)
    assert fleet_of(good).stop(SOON) == []
    assert fleet_of(good, lasting, bad).stop(SOON) == [f"{lasting} did not end", f"{bad} ended with 1"]


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_does_no_new_work_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    Worker("--queues", f"default,{queue_of(0)}").wait_for_start()
    assert last_runs([0]) == []
    monkeypatch.setattr(calming, "TAIL_SECONDS", SOON)
    [text] = last_runs([0, 1])
    assert "the last runs of each worker to succeed" in text


@pytest.mark.django_db(transaction=True)
def test_a_schedule_that_fires_no_more_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clockwork, "AGAIN_SECONDS", SOON)
    [text] = said(Clockwork().stop)
    assert "the schedule to fire once more" in text


class Stopped(Clockwork):
    """One with which all is wrong."""

    def __init__(self) -> None: ...

    def stop(self) -> None:
        raise AssertionError("it does not stop")

    def wrong(self) -> Iterator[str]:
        yield "it is wrong"


def test_all_that_is_wrong_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calming, "CLIENT_SECONDS", SOON)
    for part in ("last_runs", "left_in_lists", "unheard", "violated"):
        monkeypatch.setattr(calming, part, lambda *_arguments, part=part: [part])

    def wait(*_arguments: Any) -> None:
        raise AssertionError("runs are left")

    monkeypatch.setattr(calming, "wait_for_none", wait)
    (tmp_path / "client-newest.log").write_text("Traceback (most recent call last):\n")
    client, worker = Ending(None), Ending(1)
    told = calm_down([client], tmp_path, fleet_of(worker), Stopped(), 1.0)  # type: ignore[list-item]
    first, *rest = told
    assert "the clients to end" in first
    assert rest == [
        "it does not stop",
        "runs are left",
        "it is wrong",
        *("last_runs", "left_in_lists", "unheard", "violated"),
        "a client stumbled: see client-newest.log",
        f"{worker} ended with 1",
    ]
    assert client.was_killed and (tmp_path / "stop").exists()
