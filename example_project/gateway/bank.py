"""What the gateway promises: one charge for one idempotency key, however often it is asked for."""

from __future__ import annotations

import hashlib
import threading
from decimal import Decimal

from gateway.ledger import Entry, Kind, Ledger
from loopback.server import Answer

DECLINED_SUFFIX = "0002"


class Bank:
    """Its memory is the ledger: a gateway that is restarted still knows every key."""

    def __init__(self, ledger: Ledger, *, declined_suffix: str = DECLINED_SUFFIX) -> None:
        self._ledger = ledger
        self._declined_suffix = declined_suffix
        self._charges: dict[str, Entry] = {}
        self._closed: dict[str, Entry] = {}
        # Looking up a key and writing its line are one act: two requests with one key may arrive together.
        self._lock = threading.Lock()
        for entry in ledger.known:
            self._remember(entry)

    def charge(self, *, key: str, reference: str, amount: Decimal, card: str) -> Answer:
        """201 for a new charge, 200 for one that the key had made before, 402 declined, 409 key closed or reused."""
        with self._lock:
            if key in self._closed:
                return Answer(409, {"error": "this key was refunded and is closed"})
            if (known := self._charges.get(key)) is not None:
                return _repeat(known, amount)
            if card.endswith(self._declined_suffix):
                return Answer(402, {"error": "card declined"})
            entry = self._write("charge", key, reference, amount)
            return Answer(201, {"charge_id": entry.charge_id, "repeated": False})

    def refund(self, *, key: str, reference: str) -> Answer:
        """Give back what the key took, if anything, and close it: a charge that is still on its way comes too late."""
        with self._lock:
            if (closed := self._closed.get(key)) is None:
                charge = self._charges.get(key)
                closed = (
                    self._write("refund", key, reference, charge.money)
                    if charge
                    else self._write("void", key, reference, Decimal(0))
                )
            return Answer(200, {"refunded": str(closed.money), "charge_id": closed.charge_id})

    def _write(self, kind: Kind, key: str, reference: str, amount: Decimal) -> Entry:
        charge_id = "ch_" + hashlib.sha256(key.encode()).hexdigest()[:16]
        entry = self._ledger.write(kind, key=key, reference=reference, amount=amount, charge_id=charge_id)
        self._remember(entry)
        return entry

    def _remember(self, entry: Entry) -> None:
        book = self._charges if entry.kind == "charge" else self._closed
        book[entry.key] = entry


def _repeat(known: Entry, amount: Decimal) -> Answer:
    if known.money != amount:
        return Answer(409, {"error": f"this key charged {known.amount} before, not {amount}"})
    return Answer(200, {"charge_id": known.charge_id, "repeated": True})
