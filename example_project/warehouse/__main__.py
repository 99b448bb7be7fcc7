"""Run the warehouse as its own process. The token for its callbacks is read from SHOP_WEBHOOK_TOKEN."""

from __future__ import annotations

import argparse
import os
from contextlib import suppress
from pathlib import Path

from loopback.server import announce
from warehouse.parcels import Parcels
from warehouse.server import Warehouse


def main() -> None:
    options = _options()
    # From the environment: arguments are shown to every user of the machine by ``ps``.
    token = os.environ.get("SHOP_WEBHOOK_TOKEN", "")
    server = Warehouse(Parcels(options.state), token=token, pack_seconds=options.pack_seconds).serve(options.port)
    print(f"warehouse on {server.url}", flush=True)
    announce(options.ready_file, server.url)
    with suppress(KeyboardInterrupt):
        server.serve_forever()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="warehouse", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="on 127.0.0.1; 0 takes a free one")
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--pack-seconds", type=float, default=1.0, help="a parcel takes half of it to all of it")
    parser.add_argument("--ready-file", type=Path, help="the address is written here once it listens")
    return parser.parse_args()


if __name__ == "__main__":
    main()
