"""The payment gateway: real HTTP, one charge for each key, faults by seed, and a ledger that survives a kill."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import pytest

from gateway.bank import Bank
from gateway.faults import BLOCK, Fault, FaultPlan
from gateway.ledger import Ledger, read_ledger
from gateway.server import Gateway, Temper
from loopback.client import NoAnswer, Reply, get, post
from tests.example.conftest import PROJECT
from tests.example.waiting import wait_for


class Planned(FaultPlan):
    """The faults that a test names, by number of request."""

    def __init__(self, **faults: Fault) -> None:
        super().__init__(0)
        self._faults = {int(number[1:]): fault for number, fault in faults.items()}

    def fault(self, number: int) -> Fault:
        return self._faults.get(number, Fault.NONE)


class Caller:
    """Talks to a gateway whose ledger is `path`."""

    def __init__(self, url: str, path: Path) -> None:
        self.url, self.path = url, path

    def charge(self, key: str, amount: str = "9.90", card: str = "tok_4242", timeout: float = 5) -> Reply:
        body = {"reference": f"order of {key}", "amount": amount, "card": card}
        headers = {"Idempotency-Key": key, "X-Client-Pid": "77"}
        return post(f"{self.url}/charges", body, headers=headers, timeout=timeout)

    def refund(self, key: str) -> Reply:
        return post(f"{self.url}/refunds", {"reference": f"order of {key}"}, headers={"Idempotency-Key": key})

    def booked(self) -> list[tuple[str, str, str]]:
        return [(entry.kind, entry.key, entry.amount) for entry in read_ledger(self.path)]


Open = Callable[..., Caller]


@pytest.fixture
def open_gateway(tmp_path: Path) -> Iterator[Open]:
    """Starts gateways in threads; each new one reads the ledger that the one before it has left."""
    servers = []

    def start(plan: FaultPlan | None = None, **temper: float) -> Caller:
        bank = Bank(Ledger(path := tmp_path / "ledger.jsonl"))
        server = Gateway(bank, plan or Planned(), Temper(**{"latency": 0, "hold": 5, **temper})).serve(0)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        servers.append(server)
        return Caller(server.url, path)

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_one_key_is_one_charge(open_gateway: Open) -> None:
    caller = open_gateway()
    first, second = caller.charge("k"), caller.charge("k")
    assert (first.status, second.status) == (201, 200)
    assert first.body["charge_id"] == second.body["charge_id"]
    assert caller.booked() == [("charge", "k", "9.90")]


def test_one_key_from_many_callers_at_once_is_one_charge(open_gateway: Open) -> None:
    caller = open_gateway()
    with ThreadPoolExecutor(16) as pool:
        replies = list(pool.map(lambda _: caller.charge("k"), range(64)))
    assert Counter(reply.status for reply in replies) == {201: 1, 200: 63}
    assert len(caller.booked()) == 1


def test_one_key_with_another_amount_is_refused(open_gateway: Open) -> None:
    caller = open_gateway()
    caller.charge("k")
    assert caller.charge("k", amount="9.91").status == 409
    assert len(caller.booked()) == 1


def test_a_declined_card_is_not_in_the_ledger(open_gateway: Open) -> None:
    caller = open_gateway()
    assert [caller.charge("k", card="tok_0002").status for _ in range(2)] == [402, 402]
    assert caller.booked() == []


def test_a_refund_gives_back_what_was_charged_once(open_gateway: Open) -> None:
    caller = open_gateway()
    caller.charge("k")
    assert [caller.refund("k").body["refunded"] for _ in range(2)] == ["9.90", "9.90"]
    assert caller.booked() == [("charge", "k", "9.90"), ("refund", "k", "9.90")]
    assert caller.charge("k").status == 409


def test_a_refund_before_the_charge_closes_the_key(open_gateway: Open) -> None:
    """A charge that was given up on may still be on its way: it must come too late."""
    caller = open_gateway()
    assert caller.refund("k").body["refunded"] == "0"
    assert caller.charge("k").status == 409
    assert caller.booked() == [("void", "k", "0")]


def test_a_restarted_gateway_knows_its_keys(open_gateway: Open) -> None:
    caller = open_gateway()
    caller.charge("charged")
    caller.refund("closed")
    caller = open_gateway()
    assert (caller.charge("charged").status, caller.charge("closed").status) == (200, 409)


def test_a_line_that_a_crash_has_cut_is_dropped_and_not_glued_to_the_next(open_gateway: Open) -> None:
    caller = open_gateway()
    caller.charge("whole")
    with caller.path.open("a") as file:
        file.write('{"kind": "charge", "key": "cu')
    assert caller.booked() == [("charge", "whole", "9.90")]
    caller = open_gateway()
    caller.charge("next")
    assert [key for _, key, _ in caller.booked()] == ["whole", "next"]


def test_503_charges_nothing(open_gateway: Open) -> None:
    caller = open_gateway(Planned(n0=Fault.UNAVAILABLE))
    assert caller.charge("k").status == 503
    assert caller.booked() == []
    assert caller.charge("k").status == 201


def test_broken_it_moves_no_money_until_it_is_repaired(open_gateway: Open) -> None:
    caller = open_gateway()
    caller.charge("paid")
    assert post(f"{caller.url}/break", {}).ok
    assert [caller.charge("k").status, caller.charge("k").status, caller.refund("paid").status] == [503] * 3
    assert caller.booked() == [("charge", "paid", "9.90")]
    assert get(f"{caller.url}/counts").body["503"] == 3
    assert post(f"{caller.url}/repair", {}).ok
    assert (caller.charge("k").status, caller.refund("paid").status) == (201, 200)


def test_what_was_planned_for_the_time_that_it_was_broken_does_not_come_later(open_gateway: Open) -> None:
    caller = open_gateway(Planned(n0=Fault.TIMEOUT), hold=0.1)
    post(f"{caller.url}/break", {})
    assert caller.charge("k").status == 503
    post(f"{caller.url}/repair", {})
    assert caller.charge("k").status == 201


def test_a_timeout_comes_after_the_money_moved(open_gateway: Open) -> None:
    caller = open_gateway(Planned(n0=Fault.TIMEOUT))
    with pytest.raises(NoAnswer):
        caller.charge("k", timeout=2)
    assert caller.booked() == [("charge", "k", "9.90")]
    assert caller.charge("k").status == 200


def test_without_a_caller_that_gives_up_the_gateway_hangs_up(open_gateway: Open) -> None:
    caller = open_gateway(Planned(n0=Fault.TIMEOUT), hold=0.1)
    with pytest.raises(NoAnswer):
        caller.charge("k")
    assert len(caller.booked()) == 1


def test_a_timeout_that_falls_on_a_declined_card_waits_for_the_next_charge(open_gateway: Open) -> None:
    caller = open_gateway(Planned(n0=Fault.TIMEOUT), hold=0.1)
    assert caller.charge("declined", card="tok_0002").status == 402
    with pytest.raises(NoAnswer):
        caller.charge("k")
    assert caller.charge("other").status == 201


def test_it_tells_what_is_in_flight_until_the_caller_has_left(open_gateway: Open) -> None:
    caller = open_gateway(Planned(n0=Fault.TIMEOUT))
    with ThreadPoolExecutor(1) as pool:
        charge = pool.submit(caller.charge, "k", timeout=3)
        wait_for(lambda: in_flight(caller) == [{"kind": "charge", "reference": "order of k", "pid": 77}])
        assert isinstance(charge.exception(), NoAnswer)
    wait_for(lambda: in_flight(caller) == [])


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [("/charges", {"reference": "r"}, 400), ("/charges", {"reference": "r", "amount": "much", "card": "c"}, 400),
     ("/refunds", {}, 400), ("/elsewhere", {}, 404)],
)  # fmt: skip
def test_bad_requests_are_told_so(open_gateway: Open, path: str, body: dict[str, str], status: int) -> None:
    caller = open_gateway()
    assert post(caller.url + path, body, headers={"Idempotency-Key": "k"}).status == status
    assert post(f"{caller.url}/charges", {"reference": "r", "amount": "1", "card": "c"}).status == 400, "no key"
    assert caller.booked() == []


# --- the seed


@pytest.mark.parametrize("seed", [0, 7, 20240229])
def test_by_any_seed_five_percent_fail_and_three_percent_time_out(seed: int) -> None:
    plan = FaultPlan(seed)
    for requests in (3 * BLOCK, 400, 1000):
        shares = Counter(plan.fault(number) for number in range(requests))
        assert shares[Fault.UNAVAILABLE] / requests >= 0.05
        assert shares[Fault.TIMEOUT] / requests >= 0.03


def test_the_same_seed_fails_the_same_requests_and_another_one_others() -> None:
    first, again, other = ([FaultPlan(seed).fault(n) for n in range(200)] for seed in (7, 7, 8))
    assert first == again != other


def test_over_http_the_shares_hold_as_well(open_gateway: Open) -> None:
    caller = open_gateway(FaultPlan(11), hold=0)
    answers: Counter[object] = Counter()
    for number in range(200):
        try:
            answers[caller.charge(f"k{number}").status] += 1
        except NoAnswer:
            answers["timeout"] += 1
    assert answers == {201: 170, 503: 20, "timeout": 10}
    counts = get(f"{caller.url}/counts").body
    assert (counts["requests"], counts["503"], counts["timeouts"]) == (200, 20, 10)
    assert len(caller.booked()) == 180


# --- the process


@contextmanager
def gateway_process(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], Caller]]:
    ready, ledger = folder / "gateway.url", folder / "ledger.jsonl"
    ready.unlink(missing_ok=True)
    command = [sys.executable, "-m", "gateway", "--ledger", str(ledger), "--ready-file", str(ready), *options]
    with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True) as process:
        try:
            wait_for(ready.exists)
            yield process, Caller(ready.read_text(), ledger)
        finally:
            process.kill()


def test_as_a_process_it_prints_its_seed_and_a_kill_loses_no_charge(tmp_path: Path) -> None:
    with gateway_process(tmp_path, "--latency", "0") as (process, caller):
        assert caller.url.startswith("http://127.0.0.1:")
        assert charge_until_it_works(caller, "k") in (200, 201)
    assert process.stdout is not None
    assert [Decimal(amount) for _, _, amount in caller.booked()] == [Decimal("9.90")]
    with gateway_process(tmp_path, "--latency", "0", "--seed", "5") as (process, caller):
        assert process.stdout is not None
        assert "seed 5: of every 20 requests 2 answer 503 and 1 times out" in process.stdout.readline()
        assert charge_until_it_works(caller, "k") == 200


def charge_until_it_works(caller: Caller, key: str) -> int:
    for _ in range(5):
        try:
            if (status := caller.charge(key, timeout=1).status) != 503:
                return status
        except NoAnswer:
            continue
    raise AssertionError("five faults in a row are not in the plan")


def in_flight(caller: Caller) -> object:
    return get(f"{caller.url}/in-flight").body["requests"]
