"""The warehouse's door and its packers."""

from __future__ import annotations

import threading
from random import Random

from loopback.client import NoAnswer, post
from loopback.server import HOST, Answer, Call, JsonServer
from warehouse.parcels import Parcel, Parcels

PACKERS = 2


class Warehouse:
    """``token`` proves to the shop who calls; packing takes between half of ``pack_seconds`` and all of it."""

    def __init__(self, parcels: Parcels, *, token: str, pack_seconds: float) -> None:
        self._parcels, self._token, self._pack_seconds = parcels, token, pack_seconds
        self._random = Random()

    def serve(self, port: int) -> JsonServer:
        for _ in range(PACKERS):
            threading.Thread(target=self._pack_for_ever, daemon=True).start()
        return JsonServer(port, {"POST /pack": self.pack, "POST /stop": self.stop, "GET /counts": self.counts})

    def pack(self, call: Call) -> Answer:
        if not call.body["callback"].startswith(f"http://{HOST}:"):
            raise ValueError("this warehouse calls back on its own machine only")
        seconds = self._random.uniform(0.5, 1.0) * self._pack_seconds
        parcel = self._parcels.ask(call.body["order"], call.body["callback"], pack_seconds=seconds)
        return Answer(202, {"order": parcel.order, "stage": parcel.stage})

    def stop(self, call: Call) -> Answer:
        return Answer(200, {"stopped": self._parcels.stop(call.body["order"])})

    def counts(self, call: Call) -> Answer:
        return Answer(200, dict(self._parcels.counts()))

    def _pack_for_ever(self) -> None:
        while True:
            self.call_back(self._parcels.due())

    def call_back(self, parcel: Parcel) -> None:
        """Tell the shop. Without a yes the parcel comes round again: the shop may hear of one parcel twice."""
        body = {"order": parcel.order, "tracking": parcel.tracking}
        try:
            reply = post(parcel.callback, body, headers={"Authorization": f"Bearer {self._token}"}, timeout=10)
        except NoAnswer:
            return
        if reply.ok or reply.status == 410:  # Gone: nobody waits for this parcel any more.
            self._parcels.told(parcel)
