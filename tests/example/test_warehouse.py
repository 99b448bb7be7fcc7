"""The warehouse: packs each order once, calls back until it is heard, and a restart forgets nothing."""

from __future__ import annotations

import http.client
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from loopback.client import get, post
from loopback.server import Answer, Call, JsonServer
from tests.example.conftest import PROJECT
from tests.example.waiting import wait_for
from warehouse.parcels import Parcels, Stage
from warehouse.server import Warehouse

TOKEN = "of the tests"


class Shop:
    """Hears the warehouse's calls; says no to as many of them as `deaf` says."""

    def __init__(self, deaf: int = 0, no: int = 503) -> None:
        self.calls: list[tuple[str, str, str]] = []
        self._deaf, self._no = deaf, no
        self.server = JsonServer(0, {"POST /packed": self._packed})
        self.callback = f"{self.server.url}/packed"

    def _packed(self, call: Call) -> Answer:
        self.calls.append((call.body["order"], call.body["tracking"], call.headers["Authorization"]))
        return Answer(self._no if len(self.calls) <= self._deaf else 200, {})


@contextmanager
def serving(server: JsonServer) -> Iterator[str]:
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield server.url
    server.shutdown()
    server.server_close()


@contextmanager
def open_warehouse(folder: Path, pack_seconds: float = 0) -> Iterator[str]:
    parcels = Parcels(folder / "warehouse.jsonl")
    with serving(Warehouse(parcels, token=TOKEN, pack_seconds=pack_seconds).serve(0)) as url:
        yield url


def test_it_packs_and_calls_with_its_token(tmp_path: Path) -> None:
    shop = Shop()
    with serving(shop.server), open_warehouse(tmp_path) as url:
        assert post(f"{url}/pack", {"order": "A", "callback": shop.callback}).status == 202
        wait_for(lambda: get(f"{url}/counts").body["told"] == 1)
    ((order, tracking, authorization),) = shop.calls
    assert (order, authorization) == ("A", f"Bearer {TOKEN}")
    assert tracking.startswith("DD")


def test_asking_again_packs_no_second_parcel(tmp_path: Path) -> None:
    shop = Shop()
    with serving(shop.server), open_warehouse(tmp_path) as url:
        for _ in range(3):
            post(f"{url}/pack", {"order": "A", "callback": shop.callback})
            wait_for(lambda: get(f"{url}/counts").body["told"] == 1)
    assert len(shop.calls) == 1


def test_it_calls_until_it_is_heard(tmp_path: Path) -> None:
    shop = Shop(deaf=1)
    with serving(shop.server), open_warehouse(tmp_path) as url:
        post(f"{url}/pack", {"order": "A", "callback": shop.callback})
        wait_for(lambda: get(f"{url}/counts").body["told"] == 1)
    assert len(shop.calls) == 2
    assert len({tracking for _, tracking, _ in shop.calls}) == 1


def test_an_order_that_nobody_waits_for_is_not_called_about_again(tmp_path: Path) -> None:
    shop = Shop(deaf=9, no=410)
    with serving(shop.server), open_warehouse(tmp_path) as url:
        post(f"{url}/pack", {"order": "A", "callback": shop.callback})
        wait_for(lambda: get(f"{url}/counts").body["told"] == 1)
    assert len(shop.calls) == 1


def test_what_is_stopped_in_time_is_never_packed(tmp_path: Path) -> None:
    with open_warehouse(tmp_path, pack_seconds=60) as url:
        body = {"order": "A", "callback": "http://127.0.0.1:9/"}
        post(f"{url}/pack", body)
        assert post(f"{url}/stop", {"order": "A"}).body == {"stopped": True}
        assert post(f"{url}/pack", body).body["stage"] == Stage.STOPPED


def test_a_stop_that_overtakes_its_order_wins(tmp_path: Path) -> None:
    with open_warehouse(tmp_path) as url:
        assert post(f"{url}/stop", {"order": "A"}).body == {"stopped": True}
        assert post(f"{url}/pack", {"order": "A", "callback": "http://127.0.0.1:9/"}).body["stage"] == Stage.STOPPED


def test_what_is_packed_can_not_be_stopped(tmp_path: Path) -> None:
    shop = Shop()
    with serving(shop.server), open_warehouse(tmp_path) as url:
        post(f"{url}/pack", {"order": "A", "callback": shop.callback})
        wait_for(lambda: len(shop.calls) == 1)
        assert post(f"{url}/stop", {"order": "A"}).body == {"stopped": False}


def test_it_calls_nobody_outside_of_this_machine(tmp_path: Path) -> None:
    with open_warehouse(tmp_path) as url:
        assert post(f"{url}/pack", {"order": "A", "callback": "http://example.com/"}).status == 400


def test_every_stage_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "warehouse.jsonl"
    parcels = Parcels(path)
    for order in ("asked", "stopped"):
        parcels.ask(order, "http://127.0.0.1:9/", pack_seconds=60)
    parcels.stop("stopped")
    parcels.stop("early")
    parcels.ask("told", "http://127.0.0.1:9/", pack_seconds=0)
    parcels.told(parcels.due())
    again = Parcels(path)
    assert again.counts() == {"asked": 1, "packed": 0, "told": 1, "stopped": 2}
    assert again.due().order == "asked"


def test_a_killed_warehouse_goes_on_after_its_restart(tmp_path: Path) -> None:
    shop = Shop(deaf=1)
    with serving(shop.server):
        with warehouse_process(tmp_path) as url:
            post(f"{url}/pack", {"order": "A", "callback": shop.callback})
            wait_for(lambda: len(shop.calls) == 1)
        with warehouse_process(tmp_path) as url:
            wait_for(lambda: get(f"{url}/counts").body["told"] == 1)
    assert {tracking for _, tracking, _ in shop.calls} == {shop.calls[0][1]}


@contextmanager
def warehouse_process(folder: Path) -> Iterator[str]:
    ready = folder / "warehouse.url"
    ready.unlink(missing_ok=True)
    options = ["--state", str(folder / "warehouse.jsonl"), "--pack-seconds", "0", "--ready-file", str(ready)]
    with subprocess.Popen(
        [sys.executable, "-m", "warehouse", *options], cwd=PROJECT, stdout=subprocess.DEVNULL
    ) as process:
        try:
            wait_for(ready.exists)
            yield ready.read_text()
        finally:
            process.kill()


@pytest.mark.parametrize("body", ["[]", "{"])
def test_what_is_not_json_is_refused(tmp_path: Path, body: str) -> None:
    with open_warehouse(tmp_path) as url:
        connection = http.client.HTTPConnection(url.removeprefix("http://"))
        connection.request("POST", "/pack", body)
        assert connection.getresponse().status == 400
        connection.close()
