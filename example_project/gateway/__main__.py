"""Run the gateway as its own process."""

from __future__ import annotations

import argparse
import secrets
from contextlib import suppress
from pathlib import Path

from gateway.bank import DECLINED_SUFFIX, Bank
from gateway.faults import FaultPlan
from gateway.ledger import Ledger
from gateway.server import Gateway, Temper
from loopback.server import announce


def main() -> None:
    options = _options()
    plan = FaultPlan(options.seed)
    bank = Bank(Ledger(options.ledger), declined_suffix=options.declined_suffix)
    server = Gateway(bank, plan, Temper(options.latency, options.hold)).serve(options.port)
    print(f"payment gateway on {server.url}, {plan}", flush=True)
    announce(options.ready_file, server.url)
    with suppress(KeyboardInterrupt):
        server.serve_forever()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="gateway", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="on 127.0.0.1; 0 takes a free one")
    parser.add_argument("--ledger", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10_000), help="default: a random one, printed")
    parser.add_argument("--declined-suffix", default=DECLINED_SUFFIX, help="cards that end so are declined")
    parser.add_argument("--latency", type=float, default=Temper.latency, help="seconds for each request, about")
    parser.add_argument("--hold", type=float, default=Temper.hold, help="seconds until a timed-out request is closed")
    parser.add_argument("--ready-file", type=Path, help="the address is written here once it listens")
    return parser.parse_args()


if __name__ == "__main__":
    main()
